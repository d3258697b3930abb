# SPDX-License-Identifier: Apache-2.0
"""Files that a factory has compiled."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_noted: Final[ContextVar[list[str] | None]] = ContextVar("graphffi_sources", default=None)


@contextmanager
def noted_sources() -> Iterator[list[str]]:
    """Gives a list that gets the files which `graphffi.cpp` compiles until the block ends."""
    sources: list[str] = []
    token = _noted.set(sources)
    try:
        yield sources
    finally:
        _noted.reset(token)


def note_sources(files: Iterable[object]) -> None:
    """Notes files that are compiled, for the factory that is at work, if one is."""
    sources = _noted.get()
    if sources is not None:
        sources.extend(map(str, files))

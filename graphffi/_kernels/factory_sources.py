# SPDX-License-Identifier: Apache-2.0
"""Files that a factory has compiled."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass
class Noted:
    """The files that `graphffi.cpp` compiled for a factory, and those that they included."""

    sources: set[str] = field(default_factory=set)
    headers: set[str] = field(default_factory=set)


_noted: Final[ContextVar[Noted | None]] = ContextVar("graphffi_noted", default=None)


@contextmanager
def noted_files() -> Iterator[Noted]:
    """Collects the files that `graphffi.cpp` compiles until the block ends."""
    noted = Noted()
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def note_files(sources: Iterable[object], headers: Iterable[str]) -> None:
    """Notes files that were compiled, for the factory that is at work, if one is."""
    noted = _noted.get()
    if noted is not None:
        noted.sources.update(map(str, sources))
        noted.headers.update(headers)

# SPDX-License-Identifier: Apache-2.0
"""Files that a factory has compiled."""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_numbers: Final = itertools.count()


@dataclass
class Noted:
    """The files that `graphffi.cpp` compiled for a factory, and those that they included.

    Args:
        sources: Files that were named.
        headers: Files that compilers read, the named ones included.
        number: Tells which of two began first.
    """

    sources: set[str] = field(default_factory=set)
    headers: set[str] = field(default_factory=set)
    number: int = field(default_factory=_numbers.__next__)

    def add_library(self, library: str) -> None:
        """Adds the files of a library that a factory returned: a thread may have built it."""
        found = _of_libraries.get(library)
        if found is not None:
            self.headers |= found.headers
            if found.number > self.number:  # not one that was built before the factory was called
                self.sources |= found.sources


_noted: Final[ContextVar[Noted | None]] = ContextVar("graphffi_noted", default=None)
_of_libraries: Final[dict[str, Noted]] = {}


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


def note_library(library: str, noted: Noted) -> None:
    """Notes the files of a library, for a factory that returns it."""
    _of_libraries[os.path.abspath(library)] = noted
    note_files(noted.sources, noted.headers)

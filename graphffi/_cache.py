# SPDX-License-Identifier: Apache-2.0
"""The folder of what graphffi made: written safely by several processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

OBJECTS: Final = "objects"
"""The folder of object files, inside of the cache."""


def write_text(path: Path, text: str) -> None:
    """Write a file, so that others see all of it or nothing."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.replace(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time build a library."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def mark_used(entry: Path) -> None:
    """Note that an entry of the cache is in use: those used last are cleaned last."""
    with suppress(OSError):  # there is none, or the cache may only be read
        os.utime(entry)

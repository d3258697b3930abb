# SPDX-License-Identifier: Apache-2.0
"""The folder of what graphffi made: written safely by several processes."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

OBJECTS: Final = "objects"
"""The folder of object files, inside of the cache."""


def make_folder(path: Path) -> None:
    """Make a folder of the cache, and those that it is in.

    Raises:
        RuntimeError: if that is impossible, or nothing can be written there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise RuntimeError(
            f"graphffi: cache {str(path)!r}: expected a folder to write to, got "
            f"{error.strerror!r}; set GRAPHFFI_CACHE_DIR to one"
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a file, so that others see all of it or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def copy_file(source: str | os.PathLike[str], target: Path) -> None:
    """Copy a file, so that others see all of it or nothing."""
    import shutil

    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def is_kept(path: Path) -> bool:
    """True if a file is there that others can use: a power failure may leave an empty one."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside a file; the file that this thread writes there takes the file's place.

    Errors name the file that it is to be.
    """
    temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        if error.filename in (None, str(temporary)):  # None: from a write
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time build a library, or add to a file.

    Raises:
        RuntimeError: as `make_folder`.
    """
    make_folder(path.parent)
    while True:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if _is_at(path, file):
                    yield
                    return
            finally:
                # Closing does not release it if a process that was forked meanwhile has the file.
                fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Give a folder in the cache to build in, which `clean_cache` leaves there meanwhile."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as name:
        file = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield Path(name)
        finally:
            os.close(file)


def _is_at(path: Path, file: IO[str]) -> bool:
    """True if a file is still there: `clean_cache` may remove it before it is locked."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def mark_used(entry: Path) -> None:
    """Note that an entry of the cache is in use: those used last are cleaned last."""
    with suppress(OSError):  # there is none, or the cache may only be read
        os.utime(entry)

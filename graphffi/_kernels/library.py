# SPDX-License-Identifier: Apache-2.0
"""Files of kernel libraries: which kernels they hold, where they are, what is in them."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .. import _core

if TYPE_CHECKING:
    from collections.abc import Callable

_listeners: Final[list[Callable[[str, bool], None]]] = []

# The files of libraries that ops name without a folder. Programs hold the name alone, so a name
# means one file as long as the process lives.
_named_files: Final[dict[str, str]] = {}


def split_reference(reference: str) -> tuple[str, str]:
    """Library and symbol of a kernel reference; no library for a global function."""
    library, _, symbol = reference.rpartition("::")
    return (library, symbol) if ".so" in library else ("", reference)


def find_library(library: str) -> str | None:
    """The file: of an absolute path, or one that is searched in GRAPHFFI_LIBRARY_PATH."""
    if library.startswith("/"):
        return library if os.path.isfile(library) else None
    for folder in filter(None, os.environ.get("GRAPHFFI_LIBRARY_PATH", "").split(":")):
        file = f"{folder}/{library}"  # as the runtime does
        if os.path.isfile(file):
            return file
    return None


def find_library_in_use(subject: str, library: str) -> str | None:
    """The same; `subject` begins the error message.

    Raises:
        RuntimeError: If the library was built anew since its kernels were loaded or ops defined
            with them, so that what is there is not what runs.
    """
    file = find_library(library)
    if file is not None and not _core.is_library_current(file):
        raise RuntimeError(
            f"{subject}: cannot load {file!r}: expected the file in use, got a newer one; load it "
            "with graphffi.load_module, or define its ops again with override=True"
        )
    return file


def content_hash(file: str) -> str:
    """The SHA-256 of a file, in hexadecimal digits; read once for each state of the file."""
    status = os.stat(file)
    return _hash(file, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def hash_if_there(file: str) -> str:
    """The same; "none" where there is no such file."""
    try:
        return content_hash(file)
    except OSError:
        return "none"


def library_hash(reference: str) -> str:
    """The SHA-256 of the library at an absolute path that a kernel reference names; else empty."""
    library, _ = split_reference(reference)
    try:
        return content_hash(library) if library.startswith("/") else ""
    except OSError:
        return ""


@functools.lru_cache(maxsize=4096)  # a factory's library may include as many headers
def _hash(file: str, *_identity: int) -> str:
    # A number would be that of an open file, which reading closes.
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def check_library_name(reference: str) -> None:
    """Checks that a library without a folder is the file that ops have named by it before.

    Raises:
        RuntimeError: If it is another one, or was built anew.
    """
    library, _ = split_reference(reference)
    if not library or library.startswith("/"):
        return
    file = find_library(library)
    if file is None:  # of a package that is loaded, or found when it is called
        return
    known = _named_files.setdefault(library, file)
    if known != file or not _core.is_library_current(file):
        _refuse_renewal(library, file)


def _refuse_renewal(name: str, file: str) -> None:
    raise RuntimeError(
        f"graphffi: cannot load {file!r}: expected {_named_files[name]!r} as it was when an op "
        f"named it {name!r}, got another file; start a new process"
    )


def _check_unnamed(library: str) -> None:
    if not _core.is_library_current(library):
        for name, file in _named_files.items():
            if os.path.realpath(file) == os.path.realpath(library):
                _refuse_renewal(name, library)


def renew_library(library: str) -> None:
    """Makes the absolute path of a library mean the file that is there now.

    Raises:
        RuntimeError: If it was changed in place while it is in use, or is used by a name without a
            folder.
    """
    _check_unnamed(library)
    is_new = _core.renew_library(library)
    for listener in _listeners:
        listener(library, is_new)


def use_library_of(subject: str, reference: str, *, renews: bool) -> None:
    """The same for a kernel's library, if the kernel's reference names it by an absolute path.

    Args:
        subject: Begins the error message.
        reference: Of the kernel.
        renews: Whether another file may be there than the one in use.

    Raises:
        RuntimeError: As `renew_library`; if there is another file, and may not be.
    """
    library, _ = split_reference(reference)
    if not library.startswith("/"):
        return
    if not renews:
        _check_unnamed(library)
        find_library_in_use(subject, library)
    renew_library(library)


def when_renewed(listener: Callable[[str, bool], None]) -> None:
    """Calls `listener` with each path that is renewed, and whether another file is there now."""
    _listeners.append(listener)

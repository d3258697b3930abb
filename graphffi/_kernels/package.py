# SPDX-License-Identifier: Apache-2.0
"""Kernel libraries that travel in a package, beside the program that calls them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from .._build.cache import replacing
from .library import content_hash, find_library_in_use, split_reference
from .make_kernel import is_made_function
from .op_kernel import OWN_NAMES, UNNAMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from zipfile import ZipFile


class PackagedLibraries:
    """The kernel libraries that a package is to hold, under names that only it gives.

    A name has the beginning of the file's SHA-256, so that packages never meet in a process.

    Attributes:
        FOLDER: What the libraries' names in the archive begin with.
        MANIFEST: The name of their list there, which csrc/kernels/packaged.h reads.
    """

    FOLDER: ClassVar[str] = "graphffi/"
    MANIFEST: ClassVar[str] = "graphffi/libraries.sha256"

    def __init__(self, subject: str) -> None:
        """The libraries of one package; `subject` begins error messages."""
        self._subject = subject
        self._files: dict[str, str] = {}

    def add(self, reference: str) -> str:
        """Takes a kernel's library up.

        Returns:
            The reference of the same kernel in the package; that of a global function stays.

        Raises:
            FileNotFoundError: If the library is not where the reference says.
            RuntimeError: If it was built anew since it was loaded.
            ValueError: For a function that a factory made.
        """
        library, symbol = split_reference(reference)
        if is_made_function(reference):
            raise ValueError(
                f"{self._subject}: expected kernels of libraries, got the function {reference!r} "
                "that a factory made; have the factory return the path of a library"
            )
        if reference.startswith(f"{OWN_NAMES}{UNNAMED}."):
            raise ValueError(
                f"{self._subject}: expected a function of a library, or a registered name, got one "
                f"that has a name in this process only, {reference!r}; register it with "
                "graphffi.register_global_func"
            )
        if not library:
            return reference
        file = find_library_in_use(self._subject, library)
        if file is None:
            raise FileNotFoundError(
                f"{self._subject}: expected the kernel library '{library}', found none; give an "
                "absolute path or set GRAPHFFI_LIBRARY_PATH"
            )
        name = library_name(file)
        self._files[name] = file
        return f"{name}::{symbol}"

    def write(self, archive: ZipFile, root: str = "") -> None:
        """Writes the libraries and their hashes, under names that begin with `root`."""
        lines = []
        for name, file in self._files.items():
            with open(file, "rb") as opened:
                content = opened.read()
            archive.writestr(f"{root}{self.FOLDER}{name}", content)
            lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
        archive.writestr(f"{root}{self.MANIFEST}", "".join(lines))

    def copy_to(self, folder: Path) -> None:
        """Copies the libraries into a folder, where their names may be taken by the same files."""
        import shutil

        for name, file in self._files.items():
            with replacing(folder / name) as temporary:
                shutil.copyfile(file, temporary)


def packaged_name(reference: str) -> str:
    """The name of a kernel's library in packages; empty for a global function.

    Empty, too, if the library is not there.

    Raises:
        RuntimeError: If it was built anew since it was loaded.
    """
    library, _ = split_reference(reference)
    file = find_library_in_use("graphffi", library) if library else None
    return library_name(file) if file else ""


def library_name(file: str) -> str:
    """The name of a library that is kept: it has the beginning of the file's SHA-256."""
    return f"{os.path.basename(file).partition('.so')[0]}-{content_hash(file)[:16]}.so"


@contextmanager
def new_archive(file: str) -> Iterator[ZipFile]:
    """Opens a package for writing; one that is there is replaced when the new one is whole."""
    from zipfile import ZipFile

    with (
        replacing(Path(os.path.realpath(file))) as temporary,
        ZipFile(temporary, "w") as archive,
    ):
        yield archive


@contextmanager
def open_archive(subject: str, file: str) -> Iterator[ZipFile]:
    """Opens a package for reading.

    Args:
        subject: Begins error messages, ``graphffi_torch: package 'model.pt2'``.
        file: The package.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no archive, or if what is read from it is damaged.
    """
    import zlib
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(file) as archive:
            yield archive
    except (BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(
            f"{subject}: expected a whole archive, got a damaged one: {error}"
        ) from error


def trusted_hashes(
    subject: str, what: str, libraries: Iterable[tuple[str, str]], trust: bool | Collection[str]
) -> list[str] | None:
    """Asks for trust before a package is loaded.

    Args:
        subject: Begins error messages, ``graphffi_torch: package 'model.pt2'``.
        what: Is in the package beside libraries.
        libraries: Their names and hashes.
        trust: Of the user: True if all that is in the package may run, or the SHA-256 of the kernel
            libraries that may.

    Returns:
        The hashes that are trusted, or None for all.

    Raises:
        TypeError: If `trust` is neither.
        ValueError: Without trust.
    """
    if trust is True:
        return None
    if trust is False:
        listed = ", ".join((what, *(f"{name} (sha256 {digest})" for name, digest in libraries)))
        raise ValueError(
            f"{subject}: expected trust=True or the trusted hashes, because loading it runs native "
            f"code, got trust=False; it holds {listed}"
        )
    if (
        not isinstance(trust, Collection)
        or isinstance(trust, str)
        or not all(isinstance(digest, str) for digest in trust)
    ):
        raise TypeError(
            f"{subject}: trust: expected True, False or a list of SHA-256 hashes, got {trust!r}"
        )
    return [digest.lower() for digest in trust]

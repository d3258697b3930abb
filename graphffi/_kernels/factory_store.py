# SPDX-License-Identifier: Apache-2.0
"""Libraries that factories made, for other processes: the cache, and grids made ahead of time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .._build.cache import copy_file, locked, mark_used, write_text
from .._build.location import cache_folder
from .._values.error import FactoryError
from .library import content_hash, hash_if_there

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

INDEX: Final = "prebuilt.json"
"""The name of the list of a grid's libraries, in its folder."""
# Raised whenever what is in the cache or in an index means something else.
FORMAT: Final = 1
_KEYS: Final = {"op", "kernel", "key", "library", "symbol", "sha256"}  # of a grid's kernel


@dataclass(frozen=True)
class Store:
    """The place in the cache of what a factory made for one key."""

    entry: Path

    @staticmethod
    def of(op: str, name: str, identity: str) -> Store:
        """The place of a kernel; the identity is all that its library depends on."""
        text = f"{FORMAT}\n{os.uname().machine}\n{identity}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        base = re.sub(r"[^A-Za-z0-9]+", "_", f"{op}.{name}")
        return Store(cache_folder() / f"{base}-{digest}.kernel.json")

    def locked(self) -> AbstractContextManager[None]:
        """Lets one process at a time make the kernel."""
        return locked(self.entry.with_suffix(".lock"))

    def read(self) -> str:
        """The kernel that is kept, as a factory returns it; "" if there is none."""
        try:
            found = json.loads(self.entry.read_text())
            library, symbol = str(found["library"]), str(found["symbol"])
            headers = dict(found["headers"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        if Path(library).parent.name != _folder_name(hash_if_there(library)):
            return ""  # no file, or a damaged one
        if headers != _hashes(headers):
            return ""  # made of others
        mark_used(self.entry)
        if cache_folder() in Path(library).parents:
            mark_used(Path(library).parent)
        return f"{library}::{symbol}" if symbol else library

    def forget(self) -> None:
        """Makes the next call make the kernel anew."""
        with contextlib.suppress(OSError):  # none, or a cache that can't be written
            self.entry.unlink()

    def keep(self, returned: Any, headers: Iterable[str]) -> Any:
        """Keeps a library by its content; others than those that `graphffi.cpp` keeps itself.

        Args:
            returned: The kernel, as a factory returns it.
            headers: That the library includes, as they are now.

        Returns:
            The same kernel, in the cache.
        """
        library, symbol = library_of(returned)
        if not library or cache_folder() in Path(library).parents:
            return returned
        digest = content_hash(library)
        kept = cache_folder() / _folder_name(digest) / os.path.basename(library)
        if hash_if_there(str(kept)) != digest:
            copy_file(library, kept)
        entry = {"library": str(kept), "symbol": symbol, "headers": _hashes(headers)}
        write_text(self.entry, json.dumps(entry))
        return f"{kept}::{symbol}" if symbol else str(kept)


def _folder_name(digest: str) -> str:
    """The name of the folder in the cache for a library of that content."""
    return f"kernel-{digest[:16]}"


def _hashes(files: Iterable[str]) -> dict[str, str]:
    return {file: hash_if_there(file) for file in files}


@dataclass(frozen=True)
class HeaderList:
    """The headers that a factory's libraries include, beside what its `depends=` names."""

    entry: Path

    @staticmethod
    def of(op: str, name: str, identity: str) -> HeaderList:
        """The header list of a factory; arguments as for `Store.of`."""
        return HeaderList(Store.of(op, name, identity).entry.with_suffix(".headers"))

    def add(self, headers: Iterable[str]) -> None:
        """Adds those of one more library."""
        with locked(self.entry.with_suffix(".lock")):
            known = self._read()
            if known is None or not known.issuperset(headers):
                write_text(self.entry, json.dumps(sorted((known or set()).union(headers))))

    def text(self) -> str | None:
        """Changes with the headers and with the cache; None if no library was made for it."""
        headers = self._read()
        if headers is None:
            return None
        mark_used(self.entry)
        states = [f"{header}: {digest}" for header, digest in _hashes(sorted(headers)).items()]
        return "\n".join((str(cache_folder()), *states))

    def _read(self) -> set[str] | None:
        try:
            return set(json.loads(self.entry.read_text()))
        except (OSError, ValueError):
            return None


def library_of(returned: Any) -> tuple[str, str]:
    """The file of a library that a factory returned, and the symbol, if it named one.

    Returns:
        Two empty texts for anything else.
    """
    if not isinstance(returned, (str, os.PathLike)):
        return "", ""
    text = os.fspath(returned)
    path, separator, symbol = text.rpartition("::")
    path = os.path.abspath(path if separator else text)
    is_library = ".so" in os.path.basename(path) and os.path.isfile(path)
    return (path, symbol if separator else "") if is_library else ("", "")


_prebuilt: Final[dict[tuple[str, str, str], tuple[str, str, str]]] = {}
_folders: Final[dict[str, None]] = {}  # that were read


def prebuilt(op: str, name: str, key: str) -> str:
    """The reference of a kernel that was made ahead of time; "" if there is none.

    Raises:
        FactoryError: If its library is not the one that was made.
    """
    read_environment()
    found = _prebuilt.get((op, name, key))
    if found is None:
        return ""
    library, symbol, digest = found
    if not os.path.isfile(library) or content_hash(library) != digest:
        raise FactoryError(
            f"{op}: factory {name!r}, key ({key}): expected the library {library!r} that was "
            "made ahead of time, got another file or none; run graphffi.prebuild again"
        )
    return f"{library}::{symbol}"


def prebuilt_digest(op: str, name: str) -> str:
    """Changes with the kernels of a factory that were made ahead of time."""
    read_environment()
    found = sorted((k, v[2]) for k, v in _prebuilt.items() if k[:2] == (op, name))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16] if found else ""


def prebuilt_libraries(op: str, name: str) -> list[str]:
    """The files with the kernels of a factory that were made ahead of time."""
    return sorted({v[0] for k, v in _prebuilt.items() if k[:2] == (op, name)})


def read_environment() -> None:
    """Reads the folders that GRAPHFFI_PREBUILT names."""
    for folder in filter(None, os.environ.get("GRAPHFFI_PREBUILT", "").split(":")):
        if os.path.abspath(folder) not in _folders:
            read_index(folder)


def read_index(folder: str | os.PathLike[str]) -> set[str]:
    """Makes factories use a grid of kernels.

    Returns:
        The names of its ops.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is of another version.
    """
    place = os.path.abspath(folder)
    index = load_index(Path(place))
    _folders[place] = None
    for entry in index:
        key = entry["op"], entry["kernel"], entry["key"]
        library = os.path.join(place, entry["library"])
        _prebuilt[key] = library, entry["symbol"], entry["sha256"]
    return {entry["op"] for entry in index}


def load_index(folder: Path) -> list[dict[str, str]]:
    """The entries of a grid's list. Raises what `read_index` does."""
    file = folder / INDEX
    if not file.is_file():
        raise FileNotFoundError(
            f"graphffi: prebuilt kernels: expected a folder that graphffi.prebuild made, got "
            f"{str(folder)!r}"
        )
    try:
        found = json.loads(file.read_text())
        version, entries = found["format"], found["kernels"]
        is_index = version != FORMAT or all(_KEYS <= entry.keys() for entry in entries)
    except (ValueError, TypeError, KeyError, AttributeError):
        is_index = False
    if not is_index:
        raise ValueError(
            f"graphffi: prebuilt kernels: expected a list that graphffi.prebuild wrote, got "
            f"{str(file)!r}; run graphffi.prebuild again"
        )
    if version != FORMAT:
        raise ValueError(
            f"graphffi: prebuilt kernels: expected format {FORMAT}, got {version!r} "
            f"in {str(file)!r}; run graphffi.prebuild again"
        )
    listed: list[dict[str, str]] = entries
    return listed

# SPDX-License-Identifier: Apache-2.0
"""Object files that compilers made, kept in the cache by the content of what they were made of."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from .cache import OBJECTS, building, is_kept, make_folder, mark_used, write_text
from .location import cache_folder
from .toolchain import INCLUDE_PATHS, named_files, output_of, variables, version_of, with_files_read

# Raised whenever the way of building changes what comes out.
FORMAT: Final = "4"

_Run: TypeAlias = Callable[[Sequence[str]], object]


class Contents(dict[str, str]):
    """Hashes of files, each of which is read once in a build."""

    def __missing__(self, path: str) -> str:
        self[path] = content_of(Path(path))
        return self[path]


@dataclass(frozen=True)
class Unit:
    """A file to compile.

    Attributes:
        source: the file.
        command: what compiles it, but for paths.
        key: of all that is known before it is compiled: not of the headers that it includes.
        contents: of files, which units of a library share.
    """

    source: Path
    command: Sequence[str]
    key: str
    contents: Contents

    @staticmethod
    def of(
        source: Path, command: Sequence[str], identity: Sequence[str], contents: Contents
    ) -> Unit:
        """Make the unit of a file.

        Args:
            source: the file.
            command: what compiles it, but for paths.
            identity: of the compilers and the source.
            contents: of files.

        Raises:
            ValueError: if a flag changes where compilers write the names of headers.
        """
        for part in command:
            if part.startswith("-M"):
                raise ValueError(
                    f"graphffi.cpp: expected no flag for rules of make, with which graphffi finds "
                    f"out what is included, got {part!r}"
                )
        files = [file for part in command for file in named_files(part) if os.path.isfile(file)]
        read = [contents[file] for file in files]
        native = _native_code(tuple(command), source.suffix)
        key = hash_of(FORMAT, repr(command), *identity, native, *read)
        return Unit(source, command, key, contents)

    @property
    def manifest(self) -> Path:
        """The file that lists what it included when it was compiled last, and `_others`."""
        return cache_folder() / OBJECTS / f"{self.source.stem}-{self.key}.json"

    def place(self, headers: Sequence[str]) -> Path:
        """Return where its object is kept, as long as headers are as they are now."""
        content = hash_of(self.key, *headers, *(self.contents[header] for header in headers))
        return cache_folder() / OBJECTS / f"{self.source.stem}-{content}.o"

    def headers(self) -> list[str]:
        """Return the headers that it included when it was compiled last; none if it never was."""
        return self._read_manifest()[0]

    def _read_manifest(self) -> tuple[list[str], list[str] | None]:
        try:
            headers, others = json.loads(self.manifest.read_text())
        except (FileNotFoundError, ValueError):
            return [], None
        return headers, others

    def find(self) -> Path | None:
        """Return the object that was compiled from source and headers as they are now."""
        headers, others = self._read_manifest()
        if others is None:
            return None
        found = self.place(headers)
        mark_used(self.manifest)
        mark_used(found)
        return found if is_kept(found) and others == self._others(headers) else None

    def _others(self, headers: Sequence[str]) -> list[str]:
        """Files that have the names of headers in folders that may be searched before theirs.

        These are the folders of all headers, too, in which those in quotes are looked for first.
        """
        searched = (
            str(self.source.parent),
            *_include_folders(self.command),
            *map(os.path.dirname, headers),
        )
        folders = {folder.rstrip("/") or "." for folder in searched}
        listed = {folder: _listed(folder) for folder in folders}
        parents = [(header, folder) for header in headers for folder in _parents(header)]
        names = {header[len(folder) + 1 :] for header, folder in parents if folder in folders}
        names |= {header for header in headers if not os.path.isabs(header)}
        found = {
            f"{folder}/{name}"
            for folder, entries in listed.items()
            for name in names
            if name.partition("/")[0] in entries
        }
        return sorted(file for file in found.difference(headers) if os.path.isfile(file))

    def compile(self, folder: Path, run: _Run) -> Path:
        """Compile it, and keep the object in a folder of the cache.

        Raises:
            RuntimeError: if the compiler failed, or files changed while it ran.
        """
        made = folder / f"{self.key}.o"
        rule = made.with_suffix(".d")
        began = time.time_ns()
        paths = ["-MD", "-MF", str(rule), "-c", str(self.source), "-o", str(made)]
        run([*self.command, *paths])
        if not made.is_file():
            raise RuntimeError(
                f"graphffi.cpp: {self.source}: expected a source file by its ending, got one that "
                "the compiler left alone"
            )
        headers = sorted(set(_headers(rule, folder)))
        for file in headers:
            self._check_unchanged(file, began)
        place = self.place(headers)
        made.replace(place)
        write_text(self.manifest, json.dumps([headers, self._others(headers)]))
        return place

    def _check_unchanged(self, file: str, began: int) -> None:
        """Refuses a file of which the compiler may have read another content than was hashed."""
        if cache_folder() in Path(file).parents or not os.path.isfile(file):
            return  # files there only change when they were used; nvcc names a copy that is gone
        content = content_of(Path(file))
        is_newer = began < os.stat(file).st_mtime_ns <= time.time_ns()
        if is_newer or content != self.contents.get(file, content):
            raise RuntimeError(
                f"graphffi.cpp: {file}: expected a file that stays as it is while it is compiled, "
                "got one that changed; build again"
            )
        self.contents[file] = content


def object_of(source: Path, command: Sequence[str], run: _Run) -> Path:
    """Return the object of a file, which is compiled if the cache does not have it.

    Raises:
        RuntimeError: if the cache can't be written.
    """
    contents = Contents()
    identity = (version_of((command[0],)), variables(), str(source), contents[str(source)])
    unit = Unit.of(source, command, identity, contents)
    if (found := unit.find()) is not None:
        return found
    make_folder(cache_folder() / OBJECTS)
    with building(cache_folder()) as folder:
        return unit.compile(folder, run)


def precompiled_header(
    name: str, text: str, command: Sequence[str], run: _Run
) -> tuple[Path, Path]:
    """Return the file of a header, and what it was compiled to, both in the cache.

    g++ reads the second in place of the first if its name is the first's with ``.gch`` at the end.

    Raises:
        RuntimeError: if the cache can't be written.
    """
    header = cache_folder() / OBJECTS / f"{name}-{hash_of(text)}.h"
    if not is_kept(header):
        make_folder(header.parent)
        write_text(header, text)
    mark_used(header)
    return header, object_of(header, [*command, "-x", "c++-header"], run)


@functools.lru_cache(maxsize=64)
def _native_code(command: tuple[str, ...], suffix: str) -> str:
    """The macros that compilers define for this processor or GPU, if a command asks for its code.

    Raises:
        RuntimeError: if the compiler does not tell them.
    """
    if not any(re.search("(^|[=,])native(,|$)", part) for part in command):
        return ""
    asked = (
        ("-Xcompiler", "-dM", "-E", "-x", "cu") if suffix == ".cu" else ("-dM", "-E", "-x", "c++")
    )
    told = output_of([*command, *asked, os.devnull])
    if told.returncode != 0:
        raise RuntimeError(
            f"graphffi.cpp: {command[0]}: expected the macros of this machine, which the flags "
            f"name as 'native', got status {told.returncode}\n{told.stderr}"
        )
    return told.stdout


def _include_folders(command: Sequence[str]) -> list[str]:
    """The include paths of a command and of variables, and other files that such flags name."""
    words: list[str] = []
    for part in with_files_read(command):
        words += part.split(",") if part.startswith("-Wp,") else [part]
    pairs = zip(words, [*words[1:], ""], strict=True)
    option = "-I|-i[a-z]+|--include-directory(?:-after)?=?"
    found = ((re.match(option, word), word, following) for word, following in pairs)
    folders = [word[match.end() :] or following for match, word, following in found if match]
    for name in INCLUDE_PATHS:
        folders += os.environ.get(name, "").split(":") if name in os.environ else []
    return folders


def _listed(folder: str) -> set[str]:
    try:
        return {*os.listdir(folder)}
    except OSError:
        return set()


def _parents(file: str) -> Iterator[str]:
    """The folders that a file is in, from the innermost one on."""
    while (folder := os.path.dirname(file)) not in ("", file):
        yield folder
        file = folder


def _headers(rule: Path, own_folder: Path) -> Iterator[str]:
    """Give the files that a compiler read, from the make rule that it wrote."""
    text = rule.read_text(encoding="utf-8", errors="surrogateescape").partition(":")[2]
    for name in re.findall(r"(?:\\.|[^\s\\])+", text.replace("\\\n", " ")):
        # As the compiler found it: relative to the current folder, and through links.
        path = re.sub(r"\\([\s#])", r"\1", name).replace("$$", "$")
        if not path.startswith(str(own_folder)):
            yield path


def content_of(path: Path) -> str:
    """Return a file's hash, or a text that no hash is if there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def hash_of(*parts: str) -> str:
    """Return a name for texts."""
    text = "\0".join(parts).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]

# SPDX-License-Identifier: Apache-2.0
"""How a recipe becomes a library: compiler calls, and a cache of what they made, by content."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ._factory_sources import note_sources
from ._location import cache_folder, include_path
from ._runtime import runtime_info

_CFLAGS: Final = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")
# C has no inline functions to hide: what is not static is exported, as C's own tools do.
_C_CFLAGS: Final = ("-O2", "-fPIC")
_CUDA_CFLAGS: Final = ("-std=c++17", "-O2", "-Xcompiler", "-fPIC,-fvisibility=hidden")
# With the signatures of the exported functions, which adapters read.
_DEFINES: Final = ("-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1",)
_PRELUDE: Final = "#include <tvm/ffi/extra/c_env_api.h>\n#include <tvm/ffi/tvm_ffi.h>\n"
# Raised whenever the way of building changes what comes out.
_FORMAT: Final = "1"


@dataclass(frozen=True)
class Recipe:
    """The inputs of a library's build, all paths absolute.

    Attributes:
        name: of the library.
        sources: files.
        cpp_text: C++ text, compiled as one more file.
        cuda_text: CUDA text, likewise.
        functions: what the text exports, with documentation or an empty string.
        cflags: extra flags of the C++ compiler.
        cuda_cflags: extra flags of nvcc.
        ldflags: extra flags of the linker.
        include_paths: folders searched before graphffi's headers.
    """

    name: str
    sources: tuple[Path, ...]
    cpp_text: str
    cuda_text: str
    functions: tuple[tuple[str, str], ...]
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    include_paths: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse what can't be compiled.

        Raises:
            ValueError: a bad name, or nothing to compile.
        """
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", self.name):
            raise ValueError(f"graphffi.cpp: name: expected a file name, got {self.name!r}")
        if not (self.sources or self.cpp_text or self.cuda_text):
            raise ValueError(f"graphffi.cpp: {self.name}: expected sources, got none")
        for source in self.sources:
            if not source.is_file():
                raise ValueError(
                    f"graphffi.cpp: {self.name}: expected a source file, got {str(source)!r}"
                )

    @property
    def uses_cuda(self) -> bool:
        """Whether anything is for nvcc."""
        return bool(self.cuda_text) or any(source.suffix == ".cu" for source in self.sources)

    @property
    def uses_c(self) -> bool:
        """Whether anything is for the C compiler: C++ would give its functions other symbols."""
        return any(source.suffix == ".c" for source in self.sources)

    def texts(self) -> dict[str, str]:
        """The files to be written before compiling, by name."""
        exports = "".join(_export(name, doc) for name, doc in self.functions)
        texts = {}
        if self.cpp_text:
            texts[f"{self.name}.cc"] = self._complete(".cc", self.cpp_text, exports)
        if self.cuda_text:
            own = "" if self.cpp_text else exports
            texts[f"{self.name}.cu"] = self._complete(".cu", self.cuda_text, own)
        return texts

    def _complete(self, suffix: str, text: str, exports: str) -> str:
        # Compilers are to report lines of the user's text.
        return f'{_PRELUDE}#line 1 "{self.name}{suffix}"\n{text}\n#line 1 "exports"\n{exports}'


def build_library(recipe: Recipe, opt_folder: Path | None) -> Path:
    """Build a library, or find it in the cache.

    Args:
        recipe: what to build.
        opt_folder: where a copy goes; None leaves it in the cache.

    Returns:
        The library's file.
    """
    note_sources(recipe.sources)
    toolchain = _Toolchain.for_recipe(recipe)
    key = _hash(_FORMAT, repr(recipe), repr(toolchain), *(_content(s) for s in recipe.sources))
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    manifest = cache / f"{recipe.name}-{key}.json"
    with locked(manifest.with_suffix(".lock")):
        library = _find_built(cache, recipe, key, manifest)
        if library is None:
            library = _compile(cache, recipe, toolchain, key, manifest)
        return library if opt_folder is None else _install(library, opt_folder)


@dataclass(frozen=True)
class _Toolchain:
    """The compilers, with what they say of their version."""

    cxx: tuple[str, ...]
    cc: tuple[str, ...]
    nvcc: tuple[str, ...]
    versions: tuple[str, ...]

    @staticmethod
    def for_recipe(recipe: Recipe) -> _Toolchain:
        cxx = find_tool("CXX", ("g++", "c++", "clang++"), "a C++ compiler")
        cc = find_tool("CC", ("cc", "gcc", "clang"), "a C compiler") if recipe.uses_c else ()
        nvcc = find_tool("NVCC", ("nvcc",), "the CUDA compiler") if recipe.uses_cuda else ()
        tools = (cxx, cc, nvcc)
        return _Toolchain(*tools, tuple(_version_of(tool) for tool in tools if tool))

    def compile_command(self, recipe: Recipe, source: Path, output: Path) -> list[str]:
        """Compile one file, and list the headers that it includes."""
        includes = [f"-I{path}" for path in (*recipe.include_paths, include_path())]
        tool, flags = {
            ".cu": (self.nvcc, (*_CUDA_CFLAGS, *recipe.cuda_cflags)),
            ".c": (self.cc, (*_C_CFLAGS, *recipe.cflags)),
        }.get(source.suffix, (self.cxx, (*_CFLAGS, *recipe.cflags)))
        listing = ["-MD", "-MF", str(output.with_suffix(".d"))]
        paths = ["-c", str(source), "-o", str(output)]
        return [*tool, *_DEFINES, *includes, *flags, *listing, *paths]

    def link_command(
        self, recipe: Recipe, objects: Sequence[Path], runtime: str, output: Path
    ) -> list[str]:
        """Link a library that names the runtime by its SONAME and no folder where to find it."""
        tool = self.nvcc or self.cxx
        paths = ["-o", str(output), *map(str, objects), runtime]
        return [*tool, "-shared", *paths, *recipe.ldflags]


def find_tool(variable: str, names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the command that an environment variable names, or the first of `names` there is.

    Raises:
        RuntimeError: if there is none.
    """
    asked = os.environ.get(variable)
    candidates = [tuple(shlex.split(asked))] if asked else [(name,) for name in names]
    for command in candidates:
        if command and shutil.which(command[0]):
            return command
    got = f"{variable}={asked}" if asked else f"no {names[0]}"
    raise RuntimeError(
        f"graphffi.cpp: expected {what}, got {got}; install one, or name it in {variable}"
    )


@functools.lru_cache
def _version_of(command: tuple[str, ...]) -> str:
    result = subprocess.run([*command, "--version"], check=False, capture_output=True, text=True)
    return result.stdout


def _find_built(cache: Path, recipe: Recipe, key: str, manifest: Path) -> Path | None:
    """Return the library that was built from the headers as they are now."""
    try:
        headers = json.loads(manifest.read_text())
    except (FileNotFoundError, ValueError):
        return None
    library = _place(cache, recipe, key, headers)
    return library if library.is_file() else None


def _compile(cache: Path, recipe: Recipe, toolchain: _Toolchain, key: str, manifest: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=cache, prefix=f"{recipe.name}-") as name:
        folder = Path(name)
        sources = list(recipe.sources)
        for file_name, text in recipe.texts().items():
            sources.append(folder / file_name)
            sources[-1].write_text(text)
        objects = [folder / f"{index}.o" for index in range(len(sources))]
        for source, output in zip(sources, objects, strict=True):
            _run(recipe, toolchain.compile_command(recipe, source, output))
        linked = folder / "linked.so"
        _run(recipe, toolchain.link_command(recipe, objects, runtime_info().path, linked))
        headers = sorted({header for output in objects for header in _headers(output, folder)})
        library = _place(cache, recipe, key, headers)
        library.parent.mkdir(parents=True, exist_ok=True)
        linked.replace(library)
        write_text(manifest, json.dumps(headers))
    return library


def _headers(output: Path, own_folder: Path) -> Iterator[str]:
    """Give the files that a compiler read, from the make rule that it wrote."""
    rule = output.with_suffix(".d").read_text().partition(":")[2]
    for name in re.findall(r"(?:\\.|[^\s\\])+", rule.replace("\\\n", " ")):
        path = os.path.abspath(re.sub(r"\\(.)", r"\1", name))
        if not path.startswith(str(own_folder)):
            yield path


def _place(cache: Path, recipe: Recipe, key: str, headers: Sequence[str]) -> Path:
    """Return where a library is kept: a file there never changes, since processes map it."""
    content = _hash(key, *headers, *(_content(Path(header)) for header in headers))
    return cache / f"{recipe.name}-{content}" / f"{recipe.name}.so"


def _install(library: Path, folder: Path) -> Path:
    target = folder.absolute() / library.name
    folder.mkdir(parents=True, exist_ok=True)
    if not target.is_file() or _content(target) != _content(library):
        copy = target.with_suffix(f".{os.getpid()}.tmp")
        shutil.copyfile(library, copy)
        copy.replace(target)
    return target


def _run(recipe: Recipe, command: Sequence[str]) -> None:
    # In the compiler's own language setting, so that errors read the same everywhere.
    environment = {**os.environ, "LC_ALL": "C"}
    result = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(
            f"graphffi.cpp: {recipe.name}: {command[0]} failed with status {result.returncode}\n"
            f"{shlex.join(command)}\n{result.stderr}{result.stdout}"
        )


def write_text(path: Path, text: str) -> None:
    """Write a file, so that others see all of it or nothing."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time build a library."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _content(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _export(name: str, doc: str) -> str:
    lines = f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name});\n"
    if doc:
        lines += f"TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC({name}, {_c_string(doc)});\n"
    return lines


def _c_string(text: str) -> str:
    """Return a C++ string literal of any text, byte by byte where it is not plain."""
    plain = {
        ord(c) for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;-_()[]"
    }
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'

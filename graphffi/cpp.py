# SPDX-License-Identifier: Apache-2.0
"""Compile kernels from Python: ``build`` and ``load`` for files, ``load_inline`` for text.

``cuda_module`` takes PTX and cubins, ``export_library`` packs modules into one library.

Libraries and their objects are kept by content in ``GRAPHFFI_CACHE_DIR`` (``~/.cache/graphffi`` if
unset): sources, the headers that they include, flags and compiler. ``CXX`` and ``NVCC`` name the
compilers. ``graphffi cache`` shows and cleans what is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from ._build.compile import build_library
from ._build.config import include_path as include_path
from ._build.recipe import Recipe
from ._kernels.factory_sources import note_library, noted_files
from ._values.cuda import cuda_module as cuda_module
from ._values.module import Module, as_module, load_module

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["build", "cuda_module", "export_library", "include_path", "load", "load_inline"]

_Paths: TypeAlias = Sequence[str | os.PathLike[str]]
_Texts: TypeAlias = str | Sequence[str]
_Functions: TypeAlias = str | Sequence[str] | Mapping[str, str]
_PATH: Final = (str, os.PathLike)


class _Options(TypedDict, total=False):
    """Options of `build` that `load` and `load_inline` pass on."""

    extra_cflags: Sequence[str]
    extra_cuda_cflags: Sequence[str]
    extra_ldflags: Sequence[str]
    extra_include_paths: _Paths
    build_directory: str | os.PathLike[str] | None
    verbose: bool


def build(
    name: str,
    sources: _Paths = (),
    *,
    cpp_sources: _Texts = (),
    cuda_sources: _Texts = (),
    functions: _Functions = (),
    extra_cflags: Sequence[str] = (),
    extra_cuda_cflags: Sequence[str] = (),
    extra_ldflags: Sequence[str] = (),
    extra_include_paths: _Paths = (),
    build_directory: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> str:
    """Compile a library of kernels, unless the same one has been compiled before.

    A file is compiled again when it, a header that it includes, its flags or the compiler has
    changed; ``GRAPHFFI_JOBS`` files at a time, one for each core if unset.

    Args:
        name: of the library's file.
        sources: files; those that end in ``.cu`` are compiled by nvcc, those in ``.c`` as C.
        cpp_sources: C++ text. graphffi's headers are included already.
        cuda_sources: the same, for nvcc.
        functions: what the text is to export by its own name: names, or a mapping of names to
            documentation.
        extra_cflags: for the C++ compiler, after ``-std=c++17 -O2 -fPIC -fvisibility=hidden``, and
            for the C compiler, after ``-O2 -fPIC``.
        extra_cuda_cflags: for nvcc, such as ``-arch=sm_90a``.
        extra_ldflags: for the linker.
        extra_include_paths: searched before graphffi's headers.
        build_directory: where to put the library, as ``<name>.so``; in the cache if None.
        verbose: print the compilers' commands and warnings to stderr. Without it, a terminal shows
            how many files are compiled.

    Returns:
        The absolute path of the library. It needs a runtime, but is bound to none.

    Raises:
        RuntimeError: if a compiler is missing or fails, with what it said; if the cache can't be
            written.
        ValueError: if there is nothing to compile, or ``name`` is no file name.

    Example:
        >>> path = build("demo", ["kernels.cc"], extra_cflags=["-O3"])  # doctest: +SKIP
    """
    recipe = Recipe(
        name=name,
        sources=tuple(Path(path).absolute() for path in _listed(name, "sources", sources, _PATH)),
        cpp_text=_join(name, "cpp_sources", cpp_sources),
        cuda_text=_join(name, "cuda_sources", cuda_sources),
        functions=_documented(name, functions),
        cflags=_listed(name, "extra_cflags", extra_cflags),
        cuda_cflags=_listed(name, "extra_cuda_cflags", extra_cuda_cflags),
        ldflags=_listed(name, "extra_ldflags", extra_ldflags),
        include_paths=tuple(
            str(Path(path).absolute())
            for path in _listed(name, "extra_include_paths", extra_include_paths, _PATH)
        ),
    )
    folder = None if build_directory is None else Path(build_directory)
    with noted_files() as noted:
        library = str(build_library(recipe, folder, verbose=verbose))
    note_library(library, noted)
    return library


def load(name: str, sources: _Paths, **options: Unpack[_Options]) -> Module:
    """Compile files with ``build``, which has these options, and load the library.

    Returns:
        The module.
    """
    return load_module(build(name, sources, **options))


def load_inline(
    name: str,
    *,
    cpp_sources: _Texts = (),
    cuda_sources: _Texts | None = None,
    functions: _Functions = (),
    **options: Unpack[_Options],
) -> Module:
    """Compile text with ``build``, which has these options, and load the library.

    Returns:
        The module.

    Example:
        >>> code = "int twice(int x) { return 2 * x; }"
        >>> load_inline("doc", cpp_sources=code, functions=["twice"]).twice(4)  # doctest: +SKIP
        8
    """
    path = build(
        name,
        cpp_sources=cpp_sources,
        cuda_sources=() if cuda_sources is None else cuda_sources,
        functions=functions,
        **options,
    )
    return load_module(path)


def export_library(module: Module, path: str | os.PathLike[str]) -> None:
    """Pack a module and all that it imports into one shared library.

    Whoever loads the library gets the same modules with the same imports: `load_module`, a kernel
    reference, ``tvm_ffi.load_module`` or C++. Needs a C compiler (``CC``, else cc).

    Args:
        module: what to pack. Libraries are embedded as files; what a compiler holds in memory is
            written as an object file and linked; all other kinds are saved as bytes, which the
            global function ``ffi.Module.load_from_bytes.<kind>`` must turn into a module where
            the library is loaded.
        path: of the library, such as ``model.so``. A file that is there is replaced.

    Raises:
        TypeError: if a module of the tree is of a kind that can't be saved.
        ValueError: if the modules import one another in a way that one library can't repeat.
        RuntimeError: if the compiler is missing or fails, with what it said.
    """
    from ._build.export import write_library  # which needs a good deal of the standard library

    write_library(as_module(module), path)


def _listed(name: str, what: str, items: Any, kinds: Any = str) -> tuple[Any, ...]:
    """Return the items of a list. The letters of a text would be taken for its items."""
    if isinstance(items, Iterable) and not isinstance(items, (str, bytes)):
        found = tuple(items)
        if all(isinstance(item, kinds) for item in found):
            return found
    item = "text" if kinds is str else "path"
    raise TypeError(f"graphffi.cpp: {name}: {what}: expected a list of {item}s, got {items!r}")


def _join(name: str, what: str, text: _Texts) -> str:
    return text if isinstance(text, str) else "\n".join(_listed(name, what, text))


def _documented(name: str, functions: _Functions) -> tuple[tuple[str, str], ...]:
    if isinstance(functions, Mapping):
        return tuple(functions.items())
    names = [functions] if isinstance(functions, str) else functions
    return tuple((function, "") for function in _listed(name, "functions", names))

# SPDX-License-Identifier: Apache-2.0
"""Compilers: which there are, and how they are called."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ._location import include_path

if TYPE_CHECKING:
    from ._compile import Recipe

_CFLAGS: Final = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")
# C has no inline functions to hide: what is not static is exported, as C's own tools do.
_C_CFLAGS: Final = ("-O2", "-fPIC")
_CUDA_CFLAGS: Final = ("-std=c++17", "-O2", "-Xcompiler", "-fPIC,-fvisibility=hidden")
# With the signatures of the exported functions, which adapters read.
_DEFINES: Final = ("-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1",)


@dataclass(frozen=True)
class Toolchain:
    """The compilers, with what they say of their version."""

    cxx: tuple[str, ...]
    cc: tuple[str, ...]
    nvcc: tuple[str, ...]
    versions: tuple[str, ...]

    @staticmethod
    def for_recipe(recipe: Recipe) -> Toolchain:
        """Those that a library needs.

        Raises:
            RuntimeError: if one is missing.
        """
        cxx = find_tool("CXX", ("g++", "c++", "clang++"), "a C++ compiler")
        cc = find_tool("CC", ("cc", "gcc", "clang"), "a C compiler") if recipe.uses_c else ()
        nvcc = find_tool("NVCC", ("nvcc",), "the CUDA compiler") if recipe.uses_cuda else ()
        tools = (cxx, cc, nvcc)
        return Toolchain(*tools, tuple(version_of(tool) for tool in tools if tool))

    def compile_command(self, recipe: Recipe, suffix: str) -> list[str]:
        """Compile a file of a kind, whose path and the output's are still to be added."""
        includes = [f"-I{path}" for path in (*recipe.include_paths, include_path())]
        tool, flags = {
            ".cu": (self.nvcc, (*_CUDA_CFLAGS, *recipe.cuda_cflags)),
            ".c": (self.cc, (*_C_CFLAGS, *recipe.cflags)),
        }.get(suffix, (self.cxx, (*_CFLAGS, *recipe.cflags)))
        return [*tool, *_DEFINES, *includes, *flags]

    def link_command(self, recipe: Recipe, objects: Sequence[Path], runtime: str) -> list[str]:
        """Link a library that names the runtime by its SONAME and no folder where to find it."""
        return [*(self.nvcc or self.cxx), "-shared", *map(str, objects), runtime, *recipe.ldflags]


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


@functools.lru_cache(maxsize=64)
def version_of(command: tuple[str, ...]) -> str:
    """Return what a compiler says of its version."""
    result = subprocess.run([*command, "--version"], check=False, capture_output=True, text=True)
    return result.stdout

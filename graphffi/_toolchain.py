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

from ._config import include_path

if TYPE_CHECKING:
    from ._compile import Recipe

COMPILERS: Final = {
    "CXX": (("g++", "c++", "clang++"), "a C++ compiler"),
    "CC": (("cc", "gcc", "clang"), "a C compiler"),
    "NVCC": (("nvcc",), "the CUDA compiler"),
}
"""By the environment variable that names one: the commands that are looked for, and what it is."""
_CFLAGS: Final = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")
# C has no inline functions to hide: what is not static is exported, as C's own tools do.
_C_CFLAGS: Final = ("-O2", "-fPIC")
_CUDA_CFLAGS: Final = ("-std=c++17", "-O2", "-Xcompiler", "-fPIC,-fvisibility=hidden")
# Libraries have the signatures of their exported functions, which adapters read.
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
        cxx = find_compiler("CXX")
        cc = find_compiler("CC") if recipe.uses_c else ()
        nvcc = find_compiler("NVCC") if recipe.uses_cuda else ()
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


def find_compiler(variable: str) -> tuple[str, ...]:
    """Return the command that an environment variable names, or the first of the usual there is.

    Raises:
        RuntimeError: if there is none.
    """
    names, what = COMPILERS[variable]
    asked = os.environ.get(variable)
    candidates = [_split(asked)] if asked else [(name,) for name in names]
    for command in candidates:
        if command and shutil.which(command[0]):
            return command
    got = f"{variable}={asked}" if asked else f"no {names[0]}"
    raise RuntimeError(
        f"graphffi.cpp: expected {what}, got {got}; install one, or name it in {variable}"
    )


def _split(command: str) -> tuple[str, ...]:
    """The words of a command; none where its quotes are not in pairs."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()


def num_jobs() -> int:
    """Return how many files are compiled at once: `GRAPHFFI_JOBS`, or one for each core.

    Raises:
        ValueError: if the variable is no number above 0.
    """
    asked = os.environ.get("GRAPHFFI_JOBS")
    if not asked:
        return len(os.sched_getaffinity(0))
    if not (asked.isdecimal() and int(asked) > 0):
        raise ValueError(f"graphffi.cpp: GRAPHFFI_JOBS: expected a number above 0, got {asked!r}")
    return int(asked)


def c_string(text: bytes) -> str:
    """Return a string literal of C++."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text) + '"'


@functools.lru_cache(maxsize=64)
def version_of(command: tuple[str, ...]) -> str:
    """Return what a compiler says of its version."""
    result = subprocess.run([*command, "--version"], check=False, capture_output=True, text=True)
    return result.stdout

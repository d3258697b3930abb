# SPDX-License-Identifier: Apache-2.0
"""Compilers: which there are, and how they are called."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .config import include_path

if TYPE_CHECKING:
    from .recipe import Recipe

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
INCLUDE_PATHS: Final = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables with folders in which compilers look for headers."""
# Where compilers look for other files, and further flags.
_VARIABLES: Final = (
    *(*INCLUDE_PATHS, "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_RUN_PATH"),
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
)


@dataclass(frozen=True)
class Toolchain:
    """The compilers, with what they say of their version, and the variables that they read."""

    cxx: tuple[str, ...]
    cc: tuple[str, ...]
    nvcc: tuple[str, ...]
    versions: tuple[str, ...]

    @staticmethod
    def for_recipe(recipe: Recipe) -> Toolchain:
        """The programs that a library needs.

        Raises:
            RuntimeError: if one is missing.
        """
        cxx = find_compiler("CXX")
        cc = find_compiler("CC") if recipe.uses_c else ()
        nvcc = find_compiler("NVCC") if recipe.uses_cuda else ()
        tools = (cxx, cc, nvcc)
        return Toolchain(*tools, (*(version_of(tool) for tool in tools if tool), variables()))

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


def variables() -> str:
    """Return the environment variables that compilers read, those which are set."""
    return repr({name: os.environ[name] for name in _VARIABLES if name in os.environ})


def version_of(command: tuple[str, ...]) -> str:
    """Return what a compiler says of its version; of a script that calls one, also its text."""
    found = Path(shutil.which(command[0]) or command[0])
    with found.open("rb") as file:
        script = file.read() if file.read(2) == b"#!" else b""
    return _stated_version(found, command) + script.decode(errors="backslashreplace")


@functools.lru_cache(maxsize=64)
def _stated_version(_: Path, command: tuple[str, ...]) -> str:
    return output_of([*command, "--version"]).stdout


def output_of(
    command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler. It may quote sources of any encoding.

    Raises:
        RuntimeError: if the system can't run the command.
    """
    try:
        return subprocess.run(
            command,
            check=False,
            env=env,
            cwd=cwd,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise RuntimeError(f"graphffi.cpp: cannot run {command[0]!r}: {error.strerror}") from None


def linked_files(flags: Sequence[str]) -> list[str]:
    """Return the files that flags of the linker name, by their paths or by ``-L`` and ``-l``."""
    words: list[str] = []
    for flag in with_files_read(flags):
        words += flag.split(",") if flag.startswith("-Wl,") else [flag]
    paths: list[str] = []
    folders: list[str] = []
    names: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        option = before + word if before in ("-L", "-l") else word
        option = re.sub("^--library=", "-l", re.sub("^--library-path=", "-L", option))
        if option.startswith("-L"):
            folders.append(option[2:])
        elif option.startswith("-l"):
            names.append(option[2:])
        else:
            paths += named_files(word)
    for folder in (*folders, *filter(None, os.environ.get("LIBRARY_PATH", "").split(":"))):
        for name in names:
            files = [name[1:]] if name.startswith(":") else [f"lib{name}.so", f"lib{name}.a"]
            paths += [f"{folder}/{file}" for file in files]
    return [os.path.abspath(path) for path in paths if os.path.isfile(path)]


def with_files_read(flags: Sequence[str]) -> list[str]:
    """Return flags with those in the place of ``@file`` that are in the file."""
    words: list[str] = []
    for flag in flags:
        file = Path(flag[1:])
        words += shlex.split(file.read_text()) if flag[:1] == "@" and file.is_file() else [flag]
    return words


def named_files(flag: str) -> list[str]:
    """Return what may be a file in a flag: itself, or such as @file and --version-script=file."""
    return [flag, flag.removeprefix("@"), flag.partition("=")[2]]

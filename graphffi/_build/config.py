# SPDX-License-Identifier: Apache-2.0
"""`graphffi config`: flags for compilers and build systems.

Imports nothing of graphffi, so that it runs where no runtime loads: the command `graphffi` runs it
as a file.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
PACKAGE = Path(__file__).absolute().parents[1]
_TEXTS = {
    "cflags": "for the compiler, C or C++17 and newer; functions without a mark of their own, "
    'also those of extern "C", are not exported',
    "ldflags": "for the linker: the bundled runtime, which programs find where it is now",
    "cmakedir": "folder of the CMake packages graphffi and tvm_ffi, for graphffi_ROOT",
    "pkgconfigdir": "folder of graphffi.pc, for PKG_CONFIG_PATH",
}


def include_path() -> str:
    """Return the folder of the kernel-author headers, such as ``tvm/ffi/tvm_ffi.h``."""
    installed = PACKAGE / "include"
    return str(installed if installed.is_dir() else PACKAGE.parent / "csrc" / "include")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each kind of flags; the default is those of compiler and linker."""
    for name, text in _TEXTS.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)


def find_flags(chosen: argparse.Namespace) -> dict[str, list[str]]:
    """The flags that were asked for."""
    runtime = PACKAGE / "_lib"
    flags = {
        "cflags": ["-fPIC", "-fvisibility=hidden", f"-I{include_path()}"],
        "ldflags": [f"-L{runtime}", f"-Wl,-rpath,{runtime}", "-ltvm_ffi"],
        "cmakedir": [str(PACKAGE / "share" / "cmake")],
        "pkgconfigdir": [str(PACKAGE / "share" / "pkgconfig")],
    }
    wanted = [name for name in flags if getattr(chosen, name)] or ["cflags", "ldflags"]
    return {name: flags[name] for name in wanted}


def main(arguments: Sequence[str]) -> int:
    """Prints flags; gives the status of the process."""
    import argparse

    parser = argparse.ArgumentParser(prog="graphffi config")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_options(parser)
    chosen = parser.parse_args(arguments)
    flags = find_flags(chosen)
    line = " ".join(flag for found in flags.values() for flag in found)
    return print_out("config", [json.dumps(flags, indent=1) if chosen.json else line])


def print_out(command: str, lines: Sequence[str]) -> int:
    """Prints what a command found; gives 1 if that cannot be written, else 0."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as on stderr, in any encoding
    try:
        print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    except OSError as failure:
        # The interpreter writes what is left when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(failure, BrokenPipeError):  # such as `graphffi inspect lib.so | head`
            print(f"graphffi {command}: output: {failure.strerror}", file=sys.stderr)
            return 1
    return 0

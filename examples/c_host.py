# SPDX-License-Identifier: Apache-2.0
"""Builds the programs in C that call libraries of torch programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import graphffi


def compile_host(source: Path, program: str, library: str) -> None:
    """Compiles and links a program.

    Args:
        source: In C.
        program: Path of the program.
        library: Path of the library that it calls.
    """
    runtime = Path(graphffi.runtime_info().path)
    folders = f"{runtime.parent}:{Path(library).resolve().parent}"
    command = [
        os.environ.get("CC", "cc"),
        *("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"),
        f"-I{graphffi.cpp.include_path()}",
        *(str(source), "-o", program, library, str(runtime)),
        *(f"-Wl,-rpath,{folders}", "-Wl,--allow-shlib-undefined"),
    ]
    subprocess.run(command, check=True)

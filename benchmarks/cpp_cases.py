# SPDX-License-Identifier: Apache-2.0
"""Calls from C++: our headers on the bundled runtime, apache's headers on apache's runtime."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import native
from timing import Case, Contender

TITLES = {
    "add": "C++: function of 2 ints",
    "touch": "C++: function of 2 tensors",
    "text": "C++: function of a string",
    "array": "C++: function of an array of ints",
}


def contender(name: str, program: Path, runtime: Path, case: str) -> Contender:
    """One program on one runtime, which times itself."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(runtime)}
    command = [str(program), case]

    def measure() -> float:
        return float(subprocess.check_output(command, env=environment, text=True))

    return Contender(name, measure)


def cases() -> list[Case]:
    """The same source with either set of headers."""
    sides: list[tuple[str, Path, Path]] = [
        ("graphffi", *native.function_calls("graphffi")),
        ("apache", *native.function_calls("apache")),
    ]
    return [
        Case(title, [contender(name, program, lib, case) for name, program, lib in sides])
        for case, title in TITLES.items()
    ]

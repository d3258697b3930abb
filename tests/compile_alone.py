#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each source, and each header that has none, alone: what a library's unit would hide.

python tests/compile_alone.py build/alone

The folder is configured without units and without precompiled headers; nothing is written there.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def commands(folder: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """What to compile, where and how: a header as the sources beside it, or as the bindings."""
    options = {}
    for unit in json.loads((folder / "compile_commands.json").read_text()):
        source, arguments = Path(unit["file"]), shlex.split(unit["command"])
        command = [*arguments[: arguments.index("-o")], "-O0", "-fsyntax-only"]
        options[source.parent] = (unit["directory"], command)
        yield source, unit["directory"], [*command, str(source)]
    # Their sources are compiled with the code that torch generates, for a model.
    torch, standalone = ROOT / "plugins/torch/csrc", ROOT / "plugins/torch/csrc/standalone"
    where, command = options[torch]
    for folder_of_generated in (standalone / "compiled", standalone / "compiled/operators"):
        options[folder_of_generated] = (where, [*command, f"-I{standalone}"])
    for header in (h for top in ("csrc", "plugins/*/csrc") for h in ROOT.glob(f"{top}/**/*.h")):
        if "include" not in header.parts and not header.with_suffix(".cc").exists():
            where, command = options.get(header.parent, options[ROOT / "csrc/bindings"])
            yield header, where, [*command, "-include", str(header), "-xc++", os.devnull]


def main() -> None:
    """Prints what does not compile and ends with 1 then."""

    def compile_one(job: tuple[Path, str, list[str]]) -> bool:
        path, folder, command = job
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if result.returncode != 0:
            print(f"{path} does not compile alone:\n{result.stderr}", flush=True)
        return result.returncode == 0

    jobs = list(commands(Path(sys.argv[1])))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = list(pool.map(compile_one, jobs))
    print(f"{sum(passed)} of {len(jobs)} files compile alone")
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""An op whose factory compiles, and notes each time that it does: for several processes.

``filling_op.py NOTES SIZE…`` calls it from 8 threads for each size and prints what it filled in.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

import graphffi

SOURCE = Path(__file__).with_name("filling.c")
NOTES = os.environ.get("FILLING_NOTES", os.devnull)


@graphffi.op("filling::fill")
def fill(x: graphffi.Tensor) -> graphffi.Tensor:
    return graphffi.like(x)


@fill.add_factory(key=lambda x: x.shape[-1], depends=[SOURCE])
def compiled(size: int) -> str:
    with open(NOTES, "a") as notes:
        notes.write(f"{size}\n")
    folder = tempfile.mkdtemp()
    library = f"{folder}/fill.so"
    command = ["cc", "-shared", "-fPIC", f"-I{graphffi.cpp.include_path()}", f"-DVALUE={size}"]
    subprocess.run([*command, str(SOURCE), "-o", library], check=True)
    return library


def main() -> None:
    sizes = list(map(int, sys.argv[1:]))
    found: set[tuple[int, float]] = set()
    start = threading.Barrier(8)

    def run() -> None:
        start.wait()
        found.update((n, float(fill(np.ones((2, n), np.float32)).max())) for n in sizes)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*(f"{n}={value:g}" for n, value in sorted(found)))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Calls a kernel with a good operand on one path, then with one that may end the process.

Run with the library, the path's name and the first element of the second operand.
"""

from __future__ import annotations

import sys
from threading import Thread
from typing import Any

import numpy as np

import graphffi
from graphffi import Tensor

LIBRARY, PATH, FIRST = sys.argv[1:]


@graphffi.op("recorded::crash", kernel=f"{LIBRARY}::crash", plan="x, scale, out")
def crash(x: Tensor, scale: float = 2.0) -> Tensor:
    return graphffi.like(x)


def with_torch(*, compiled: bool = False) -> Any:
    import torch

    call: Any = torch.compile(crash, fullgraph=True) if compiled else crash
    return lambda x: call(torch.from_numpy(x))


def with_jax() -> Any:
    import jax

    call = jax.jit(crash)
    return lambda x: jax.block_until_ready(call(x))


def function() -> Any:
    kernel = graphffi.load_module(LIBRARY).crash
    return lambda x: kernel(x, 2.0, np.empty_like(x))


def on_two_threads() -> Any:
    def run(x: Any) -> None:
        threads = [Thread(target=crash, args=(x.copy(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


call = {
    "numpy": lambda: crash,
    "function": function,
    "torch": with_torch,
    "compiled": lambda: with_torch(compiled=True),
    "jitted": with_jax,
    "threads": on_two_threads,
}[PATH]()
call(np.array([1, 2, 3, 4], np.float32))
call(np.array([FIRST, 2, 3, 4], np.float32))

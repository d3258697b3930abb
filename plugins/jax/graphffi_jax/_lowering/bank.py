# SPDX-License-Identifier: Apache-2.0
"""Handlers of their own for named targets, from a library that has a fixed number of them."""

from __future__ import annotations

import ctypes
import functools
import itertools
from pathlib import Path
from typing import Final

_taken: Final = itertools.count()


@functools.cache
def _load() -> ctypes.CDLL:
    bank = ctypes.CDLL(str(Path(__file__).parents[1] / "lib" / "libgraphffi_jax_bank.so"))
    bank.graphffi_bank_take.restype = ctypes.c_void_p
    bank.graphffi_bank_take.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return bank


def take_handler(name: str, dispatch: int, context: int) -> int:
    """Gives the address of a new handler for a target, which passes a context on to `dispatch`.

    `dispatch` is the address of a function ``void* (*)(void* context, void* call)``. The context
    lives as long as the process.

    Raises:
        RuntimeError: If all handlers are taken.
    """
    bank, number = _load(), next(_taken)
    size = bank.graphffi_bank_size()
    if number >= size:
        raise RuntimeError(
            f"{name}: expected at most {size} targets in a process, got one more; use ops or "
            "graphffi_jax.call, which share targets"
        )
    handler: int = bank.graphffi_bank_take(number, dispatch, context)
    return handler

# SPDX-License-Identifier: Apache-2.0
"""Handlers of their own for named targets, as many as are asked for."""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
import threading
from pathlib import Path
from typing import Final

_PATH: Final = Path(__file__).with_name("lib") / "libgraphffi_jax_bank.so"
_lock: Final = threading.Lock()
_banks: Final[list[ctypes.CDLL]] = []
_taken: Final = itertools.count()


def take_handler(dispatch: int, context: int) -> int:
    """A new handler that calls `dispatch` with `context` and what XLA calls it with.

    Args:
        dispatch: Address of a function ``void* (*)(void* context, void* call)``.
        context: Address that lives as long as the process.

    Returns:
        The handler's address.
    """
    with _lock:
        number = next(_taken)
        if not _banks or number == len(_banks) * _banks[0].graphffi_bank_size():
            _banks.append(_load(is_first=not _banks))
        index = number % _banks[0].graphffi_bank_size()
        handler: int = _banks[-1].graphffi_bank_take(index, dispatch, context)
        return handler


def _load(*, is_first: bool) -> ctypes.CDLL:
    # The loader takes another file for another library, with entries of its own.
    bank = ctypes.CDLL(str(_PATH)) if is_first else _load_copy()
    bank.graphffi_bank_take.restype = ctypes.c_void_p
    bank.graphffi_bank_take.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return bank


def _load_copy() -> ctypes.CDLL:
    content = _PATH.read_bytes()
    try:
        file = os.memfd_create("graphffi_jax_bank")
    except OSError:
        return _load_temporary(content)
    try:
        os.write(file, content)
        # The loader knows libraries by their paths, and numbers of files come back: no two alike.
        return ctypes.CDLL(f"/proc/self/fd/{'./' * len(_banks)}{file}")
    finally:
        os.close(file)


def _load_temporary(content: bytes) -> ctypes.CDLL:
    file, path = tempfile.mkstemp(suffix=".so", prefix="graphffi_jax_bank")
    try:
        os.write(file, content)
        os.close(file)
        return ctypes.CDLL(path)
    finally:
        os.unlink(path)

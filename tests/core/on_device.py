# SPDX-License-Identifier: Apache-2.0
"""Tensors on GPUs that need not be there."""

from __future__ import annotations

import ctypes
from typing import Any


class Managed(ctypes.Structure):
    """DLPack's DLManagedTensor of one float32 element, and its shape."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("size", ctypes.c_int64 * 1),
    )


class OnDevice:
    """A tensor at an address that nobody reads, on a GPU that need not be there."""

    def __init__(self, device: int, index: int = 0) -> None:
        self.managed = Managed(0x1000, (device, index), 1, (2, 32, 1, 0), size=(1,))
        self.managed.shape = ctypes.addressof(self.managed) + Managed.size.offset

    def __dlpack__(self, **keywords: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), b"dltensor", None)

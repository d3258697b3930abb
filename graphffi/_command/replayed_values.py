# SPDX-License-Identifier: Apache-2.0
"""Values of a recorded call, made again: tensors lie in memory as they did."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from .. import _core
from .._values.device import Device
from .._values.dtype import dtype
from .._values.shape import Shape
from .record import text_of

_PAGE: Final = 4096


class _View(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor; NULL for nothing to do at the end."""

    _fields_ = (("view", _View), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Layout:
    """The place of a recorded tensor's elements."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.dtype = dtype(facts["tensor"])
        self.shape = [int(size) for size in facts["shape"]]
        self.bits = self.dtype.bits * self.dtype.lanes
        self.is_compact = "strides" not in facts
        self.strides = [int(s) for s in facts.get("strides", _row_major(self.shape))]
        self.num_bytes = (math.prod(self.shape) * self.bits + 7) // 8
        self.address = int(facts["address"])

    @staticmethod
    def of(tensor: _core.Tensor) -> Layout:
        """The layout of a tensor of this process."""
        shape, strides = list(tensor.shape), list(tensor.strides)
        facts = {"tensor": str(tensor.dtype), "shape": shape, "device": str(tensor.device)}
        apart = {} if strides == _row_major(shape) else {"strides": strides}
        return Layout({**facts, **apart, "address": tensor.data_ptr})

    @property
    def range(self) -> tuple[int, int]:
        """Addresses of the first byte, and behind the last."""
        if self.is_compact or not self.num_bytes:
            return self.address, self.address + self.num_bytes
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        least, most = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
        item = self.bits // 8
        return self.address + least * item, self.address + (most + 1) * item

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Offset and length, in bytes, of what stands together, in the order of elements."""
        if self.is_compact:
            yield 0, self.num_bytes
            return
        item = self.bits // 8
        for index in product(*map(range, self.shape)):
            yield sum(i * s for i, s in zip(index, self.strides, strict=True)) * item, item

    def contents(self, address: int) -> bytes:
        """All elements of the tensor, whose first one is at an address."""
        return b"".join(ctypes.string_at(address + at, n) for at, n in self.pieces())


def _row_major(shape: list[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


class Memory:
    """Memory for the tensors of a call. Those that shared some share it again."""

    def __init__(self, tensors: list[Layout]) -> None:
        self._blocks: list[tuple[int, int, int]] = []  # begin, end, the address of its memory
        self._kept: list[Any] = []
        for begin, end in _merged(sorted(t.range for t in tensors)):
            buffer = ctypes.create_string_buffer(end - begin + 2 * _PAGE)
            base = ctypes.addressof(buffer)
            base += (begin - base) % _PAGE  # as far from the beginning of a page as it was
            self._kept.append(buffer)
            self._blocks.append((begin, end, base))

    def address(self, tensor: Layout) -> int:
        """The address of the first element."""
        first = tensor.range[0]
        for begin, end, base in reversed(self._blocks):  # one may begin where another ends
            if begin <= first <= end:
                return base + tensor.address - begin
        raise ValueError("graphffi replay: expected a tensor of the call, got another")

    def fill(self, tensor: Layout, contents: bytes) -> None:
        """Writes all elements."""
        if len(contents) != tensor.num_bytes:
            raise ValueError(f"expected contents of {tensor.num_bytes} bytes, got {len(contents)}")
        address, done = self.address(tensor), 0
        for offset, count in tensor.pieces():
            ctypes.memmove(address + offset, contents[done : done + count], count)
            done += count

    def tensor(self, layout: Layout) -> _core.Tensor:
        """The tensor, which lives as long as the process."""
        dims = ctypes.c_int64 * max(len(layout.shape), 1)
        shape, strides = dims(*layout.shape), dims(*layout.strides)
        kind = (layout.dtype.code, layout.dtype.bits, layout.dtype.lanes)
        view = _View(self.address(layout), 1, 0, len(layout.shape), *kind, shape, strides, 0)
        managed = _Managed(view, None, None)
        self._kept += [shape, strides, managed]
        return _core.from_dlpack(_Capsule(managed))


class _Capsule:
    """Speaks DLPack for a view."""

    def __init__(self, managed: _Managed) -> None:
        self._managed = managed

    def __dlpack__(self, **_: Any) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in ranges:
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def tensors_of(values: list[Any], place: str = "") -> dict[str, dict[str, Any]]:
    """The tensors among recorded values, by place: ``2``, or ``2.0`` in an array."""
    found: dict[str, dict[str, Any]] = {}
    for i, value in enumerate(values):
        if isinstance(value, list):
            found |= tensors_of(value, f"{place}{i}.")
        elif isinstance(value, dict) and "tensor" in value:
            found[f"{place}{i}"] = value
    return found


def make_value(value: Any, tensors: dict[str, Any], place: str) -> Any:
    """A recorded value.

    Raises:
        ValueError: For a value that a record does not hold, such as a function.
    """
    if isinstance(value, list):
        return [make_value(item, tensors, f"{place}.{i}") for i, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if place in tensors:
        return tensors[place]
    kind, content = next(iter(value.items()), ("object", "nothing"))
    if kind == "pointer" and content == 0:
        return ctypes.c_void_p(None)
    makers: dict[str, Any] = {
        "utf8": lambda _: text_of(value),
        "bytes": bytes.fromhex,
        "float": float,
        "dtype": dtype,
        "device": Device,
        "dims": Shape,
    }
    if kind not in makers:
        raise ValueError(f"argument {place}: expected a recorded value, got {kind} {content}")
    return makers[kind](content)

# SPDX-License-Identifier: Apache-2.0
"""What hostile_calls.py passes: values of every kind, and of none that is right everywhere."""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any

import numpy as np

import graphffi
from graphffi import _core


class Liar:
    """Answers every protocol wrongly."""

    __dlpack_c_exchange_api__ = 5

    def __dlpack__(self, **_: object) -> object:
        return "no capsule"

    def __dlpack_device__(self) -> object:
        return ("cpu",)

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: object) -> object:
        raise RuntimeError("no items")

    def __index__(self) -> int:
        return 1 << 70

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __chandle__(self) -> object:
        return "no handle"

    def __iter__(self) -> Any:
        yield self
        raise RuntimeError("no more")


class Raiser:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> object:
        raise ValueError(name)

    def __hash__(self) -> int:
        raise ValueError("no hash")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    def __repr__(self) -> str:
        raise ValueError("no text")


def sayers() -> list[Any]:
    """Objects that answer each of tvm-ffi's protocols, but not with what it asks for."""
    methods = ["object", "opaque_ptr", "int", "float", "value", "env_stream"]
    names = [f"__tvm_ffi_{method}__" for method in methods]
    names += ["__cuda_stream__", "__dlpack_data_type__", "__dlpack_device__", "__dlpack__"]
    answers = [None, "text", (1, 2, 3), (1 << 70, -1), -1, 1 << 70, object(), fail]
    return [
        type("Sayer", (), {name: lambda self, answer=answer, **_: answer})()
        for name in names
        for answer in answers
    ]


class Text(str):
    """A subclass of str with an attribute of its own."""

    __slots__ = ("more",)


class CapsuleHolder:
    """Gives a capsule of a name that nobody knows, or a used one."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    def __dlpack__(self, **_: object) -> object:
        return make_capsule(self.name)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


_names: list[bytes] = []
_target = ctypes.create_string_buffer(512)


def make_capsule(name: bytes) -> object:
    """A capsule that points to zeros."""
    _names.append(name)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    return new(ctypes.addressof(_target), name, None)


def uninitialised(kind: type) -> Any:
    """An object whose __init__ never ran, or None where that is not possible."""
    try:
        return kind.__new__(kind)
    except Exception:
        return None


def fail(*_: object, **__: object) -> object:
    raise ValueError("a callback that fails")


def return_itself(*_: object) -> object:
    return return_itself


def generate() -> Any:
    yield 1
    raise ValueError("a generator that fails")


def make_values(kernels: graphffi.Module) -> list[Any]:
    """What is passed: of every kind, and of none that is right everywhere."""
    itself: list[Any] = []
    itself.append(itself)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    readonly = np.ones(3, "float32")
    readonly.flags.writeable = False
    numbers = [
        0,
        1,
        -1,
        2,
        7,
        64,
        73,
        255,
        1 << 31,
        1 << 62,
        1 << 63,
        -(1 << 63),
        1 << 64,
        1 << 200,
    ]
    floats = [0.0, -0.0, 1.5, float("inf"), float("nan"), 1e308, 1j]
    texts = [
        "",
        "x",
        "float32",
        "cpu",
        "cuda:1",
        "a::b",
        "i0, o0",
        "int4x3",
        "a\0b",
        "\ud800",
        "é" * 9,
    ]
    texts += ["x" * 4096, "(" * 50, "/nowhere/k.so", "k.so::f", Text("cpu"), "(Tensor x) -> Tensor"]
    arrays = [
        np.ones((2, 3), "float32"),
        np.ones((), "int64"),
        np.ones((0, 4), "int8"),
        np.ones((4, 4), "float64")[::2, ::-1],
        np.array([object()]),
        np.ones(3, ">i4"),
        np.zeros(2, [("a", "i4")]),
        np.array(["text"]),
        np.ones(3, "complex64"),
        np.ones([1] * 17, "uint8"),
        np.zeros(2, "M8[s]"),
        readonly,
    ]
    tensors = [
        graphffi.from_dlpack(np.ones((2, 2), "float32")),
        graphffi.empty([0], "int8"),
        _core.empty([2], "bool"),
    ]
    runtime = [
        kernels.echo,
        kernels,
        graphffi.Shape([1, 2]),
        graphffi.dtype("bfloat16"),
        graphffi.Device("cuda:3"),
    ]
    runtime += [
        uninitialised(kind)
        for kind in (_core.Tensor, _core.Function, _core.Object, graphffi.Module)
    ]
    runtime += [
        uninitialised(_core.StreamScope),
        graphffi.TensorSpec((2,), graphffi.dtype("int8"), None),
    ]
    python = [
        None,
        True,
        False,
        b"",
        b"bytes \0",
        bytearray(3),
        memoryview(b"abc"),
        object(),
        type,
        int,
        len,
        fail,
    ]
    python += [
        return_itself,
        generate(),
        Liar(),
        Raiser(),
        range(3),
        set(),
        frozenset({1}),
        slice(1),
        ...,
        types,
        Liar,
    ]
    python += [
        make_capsule(b"dltensor_used"),
        make_capsule(b"unknown"),
        CapsuleHolder(b"used_dltensor_versioned"),
    ]
    python += [
        CapsuleHolder(b"nonsense"),
        ValueError("an exception"),
        lambda: None,
        iter(()),
        sys._getframe(),
    ]
    python += sayers()
    containers = [
        [],
        (),
        {},
        [1, 2],
        (1, "two", None),
        [[1], [2.5]],
        {"k": 1},
        {1: [2]},
        [None] * 40,
        itself,
        deep,
    ]
    containers += [
        [1 << 64],
        ["\ud800"],
        [tensors[0], 1],
        arrays[:2],
        {Raiser: 1},
        [-1],
        [1 << 40],
        [Raiser()],
    ]
    return numbers + floats + texts + arrays + tensors + runtime + python + containers

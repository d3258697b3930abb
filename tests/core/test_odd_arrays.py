# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays that share memory, or whose elements are not those of a plain array."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi import _core

BYTES = np.zeros(1024, "uint8")


def test_operands_that_share_memory_are_not_updated() -> None:
    op = graphffi.define_op(
        "test_op::shared",
        schema="(Tensor(a!) y, Tensor x, Tensor(b!)[] zs) -> ()",
        kernel=lambda *tensors: None,
    )
    graphffi.register_global_func("test_op.nothing", lambda *tensors: None)
    raw = "test_op.nothing"
    a, b = np.zeros(8, np.float32), np.zeros(4, np.float32)
    own = "memory of its own, got memory shared with"
    for y, x, zs, text in (
        (a, a, [], f"operand 'y': expected {own} operand 'x'; pass a copy of one of them"),
        (a[1:], a[:-1], [], f"operand 'y': expected {own} operand 'x'"),
        (a[::2], a[::-1], [], f"operand 'y': expected {own} operand 'x'"),
        (graphffi.from_dlpack(a), a[2:3], [], f"operand 'y': expected {own} operand 'x'"),
        (a[:4], b, [b[:2], a[3:]], f"operand 'zs\\[0\\]': expected {own} operand 'x'"),
        (a[:4], b, [a[4:], a[3:]], f"operand 'zs\\[1\\]': expected {own} operand 'y'"),
        (
            np.lib.stride_tricks.as_strided(a, (4,), (0,)),
            b,
            [],
            "operand 'y': expected elements that do not overlap, got an array whose strides",
        ),
        (
            np.lib.stride_tricks.sliding_window_view(a, 3, writeable=True),
            b,
            [],
            "operand 'y': expected elements that do not overlap, got an array whose strides",
        ),
        (a.reshape(2, 4)[:, :3], a.reshape(2, 4)[:, 2:], [], f"operand 'y': expected {own}"),
    ):
        with pytest.raises(ValueError, match=f"test_op::shared: {text}"):
            op(y, x, zs)
    with pytest.raises(ValueError, match=f"operand 'o0': expected {own} operand 'i0'"):
        graphffi.call_tvm_ffi(raw, a, a, mutates=[0])
    with pytest.raises(ValueError, match=f"operand 'o1': expected {own} operand 'o0'"):
        graphffi.call_tvm_ffi(raw, a, a[4:], mutates=[0, 1])
    with pytest.raises(ValueError, match=f"operand 'o1': expected {own} operand 'i0'"):
        graphffi.call_tvm_ffi(raw, a[:0], a, a, mutates=(0, 1))
    op(a[::2], a[1::2], [b[:2], b[2:], b[:0]])
    op(a.reshape(2, 4)[:, :3], a.reshape(2, 4)[:, 3:], [])
    op(a.reshape(2, 2, 2)[::-1, :, 0].T, a.view("int16")[2::4], [])
    op(a, a[:0], [])
    op(np.lib.stride_tricks.as_strided(a, (4, 1), (4, 0)), b, [])


def random_view(random: np.random.Generator) -> np.ndarray:
    """A view of `BYTES`, with any strides."""
    kind = np.dtype(random.choice(["uint8", "int16", "float32"]))
    shape = tuple(random.integers(0, 4, random.integers(0, 4)).tolist())
    strides = tuple(kind.itemsize * step for step in random.integers(-6, 7, len(shape)).tolist())
    base = BYTES.view(kind)[len(BYTES) // kind.itemsize // 2 + random.integers(8) :]
    return np.lib.stride_tricks.as_strided(base, shape, strides)


def addresses(view: np.ndarray) -> list[int]:
    begin = view.__array_interface__["data"][0]
    steps = [range(size) for size in view.shape]
    firsts = [
        begin + sum(i * s for i, s in zip(index, view.strides, strict=True))
        for index in itertools.product(*steps)
    ]
    return [first + byte for first in firsts for byte in range(view.itemsize)]


def test_shared_memory_is_found_in_all_layouts() -> None:
    random = np.random.default_rng(0)
    views = [random_view(random) for _ in range(2000)]
    for a, b in itertools.pairwise(views):
        x, y = graphffi.from_dlpack(a), graphffi.from_dlpack(b)
        assert _core.share_memory(x, y) == (not {*addresses(a)}.isdisjoint(addresses(b)))
        if len({*addresses(a)}) < len(addresses(a)):
            assert _core.overlaps_itself(x)
    whole = graphffi.from_dlpack(np.zeros((3, 4, 5))[::-1, 1:, ::2].T)
    assert not _core.overlaps_itself(whole)


@pytest.mark.parametrize("make", [np.asarray, graphffi.from_dlpack], ids=["array", "Tensor"])
def test_what_a_kernel_returns_is_copied(make: Any) -> None:
    kept = graphffi.from_dlpack(np.arange(3, dtype="uint8"))
    op = graphffi.define_op(
        "test_op::returns",
        schema="(Tensor x) -> (Tensor, Tensor)",
        kernel=lambda x: [x, kept],
        plan="x",
        infer=lambda x: (graphffi.like(x), graphffi.like(kept)),
        override=True,
    )
    x = make(np.zeros((2, 3)))
    first, second = map(np.asarray, op(x))
    np.asarray(x)[...] = np.asarray(kept)[...] = 7
    assert (first.tolist(), second.tolist()) == ([[0, 0, 0]] * 2, [0, 1, 2])


class Subclass(np.ndarray[Any, Any]):
    """An array of another type."""


def test_results_are_arrays_if_an_operand_is_one_of_any_type() -> None:
    graphffi.register_global_func("odd.identity", lambda x: x, override=True)
    op = graphffi.define_op(
        "test_op::subclass",
        schema="(Tensor x) -> Tensor",
        kernel=lambda x, out: np.copyto(np.from_dlpack(out), np.from_dlpack(x)),
        infer=graphffi.like,
    )
    x = np.arange(3.0)
    assert op(x.view(Subclass)).tolist() == [0, 1, 2]
    text = r"operand 'x': expected a tensor, got MaskedArray; pass x\.filled\(\), which has no mask"
    with pytest.raises(TypeError, match=text):
        op(np.ma.masked_array(x, mask=[True, False, False]))
    with pytest.raises(TypeError, match=r"argument #0: expected a tensor, .*, got MaskedArray"):
        graphffi.call_tvm_ffi("odd.never_called", np.ma.masked_array(x), out=graphffi.like(x))
    with pytest.raises(TypeError, match=r"argument #0: expected None, .*, got MaskedArray"):
        graphffi.get_global_func("odd.identity")(np.ma.masked_array(x))
    with pytest.raises(TypeError, match="from_dlpack: expected a tensor, got MaskedArray"):
        graphffi.from_dlpack(np.ma.masked_array(x))
    swapped = np.dtype(np.float64).newbyteorder()
    with pytest.raises(
        TypeError, match=r"'x': expected a data type .*, got float64 in another byte"
    ):
        op(x.astype(swapped))
    ml_dtypes: Any = pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match=r"'x': expected a data type .*, got int4, whose elements"):
        op(x.astype(ml_dtypes.int4))
    with pytest.raises(TypeError, match=r"'x': expected a data type .*, got float128, whose elem"):
        op(x.astype(np.longdouble))


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (
            "float7",
            r"expected a data type of NumPy or ml_dtypes \(which pip installs\), got float7$",
        ),
        ("int4", "expected a data type that kernels can take, got int4, whose elements NumPy pads"),
        ("float128", "expected a data type that kernels can take, got float128, whose elements"),
    ],
)
def test_results_of_data_types_that_numpy_lacks_are_refused_by_name(
    kind: str, problem: str
) -> None:
    pytest.importorskip("ml_dtypes")
    op = graphffi.define_op(
        f"test_op::result_{kind}",
        schema="(Tensor x) -> Tensor",
        kernel="odd.never_called",
        plan="x, out",
        infer=lambda x: graphffi.like(x, dtype=kind),
    )
    graphffi.register_global_func("odd.never_called", lambda *tensors: None, override=True)
    with pytest.raises(TypeError, match=f"^test_op::result_{kind}: result 0: {problem}"):
        op(np.zeros(2))

# SPDX-License-Identifier: Apache-2.0
"""Kernels that ignore strides get row-major NumPy arrays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphffi

numbers = itertools.count()


def define(schema: str, kernel: Any, **options: Any) -> Any:
    name = f"mytest::row_major_{next(numbers)}"
    return graphffi.define_op(name, schema=schema, kernel=kernel, infer=graphffi.like, **options)


def strides_of(seen: list[tuple[int, ...]]) -> Any:
    return lambda x, *_: seen.append(x.strides)


def test_operands_that_are_read_are_copied() -> None:
    seen: list[tuple[int, ...]] = []
    op = define("(Tensor x) -> Tensor out", strides_of(seen))
    x = np.zeros((6, 4), np.float32)
    for array in (x, x.T, x[:, ::2], x[::-1]):
        op(array)
    assert seen == [(4, 1), (6, 1), (2, 1), (4, 1)]


def test_empty_arrays_have_the_strides_of_full_ones() -> None:
    seen: list[tuple[int, ...]] = []
    op = define("(Tensor x) -> Tensor out", strides_of(seen))
    for shape in ((0, 3), (3, 0, 2), (2, 0)):
        op(np.zeros(shape, np.float32))
    assert seen == [(3, 1), (2, 2, 1), (1, 1)]


def test_updated_operands_are_copied_back() -> None:
    def kernel(x: Any) -> None:
        np.from_dlpack(x)[...] += 1

    name = f"mytest::row_major_{next(numbers)}"
    op = graphffi.define_op(name, schema="(Tensor(a!) x) -> ()", kernel=kernel)
    whole = np.zeros((6, 4), np.float32)
    assert op(whole[:, ::2].T) is not None
    assert whole.sum() == 12
    assert (whole[:, ::2] == 1).all()


def test_a_kernel_may_take_strides() -> None:
    seen: list[tuple[int, ...]] = []
    op = define("(Tensor x) -> Tensor out", strides_of(seen), strided=True)
    op(np.zeros((6, 4), np.float32).T)
    assert seen == [(1, 4)]


def test_tensors_of_the_runtime_are_refused_by_name() -> None:
    op = define("(Tensor x) -> Tensor out", lambda *_: None)
    x = graphffi.from_dlpack(np.zeros((6, 4), np.float32).T)
    with pytest.raises(
        ValueError, match=rf"^{op.name}: operand 'x': expected a row-major tensor, got "
    ):
        op(x)


def test_arrays_whose_elements_are_not_aligned_are_copied() -> None:
    memory = np.zeros(13, np.uint8)
    x = memory[1:].view(np.float32)
    addresses = []

    def kernel(x: Any, _: Any) -> None:
        array = np.from_dlpack(x)
        addresses.append(array.ctypes.data)
        array += 1

    define("(Tensor(a!) x) -> Tensor out", kernel)(x)
    assert addresses[0] % 4 == 0
    assert (x == 1).all()


def test_returned_arrays_are_copied_and_must_be_row_major() -> None:
    x = np.zeros(4, np.float32)
    y = define("(Tensor x) -> Tensor", lambda x: x, plan="x")(x)
    y += 1
    assert x.sum() == 0
    op = define("(Tensor x) -> Tensor", lambda x: np.from_dlpack(x)[::-1], plan="x")
    with pytest.raises(ValueError, match="result 0: expected a row-major contiguous tensor, got"):
        op(x)

# SPDX-License-Identifier: Apache-2.0
"""Functions in C++ that call kernels by plans, for compilers that know no plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi.plugin import plan_function
from tests.core.on_device import OnDevice


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    """A kernel that keeps what it gets, and what copies a tensor into another."""

    def kernel(*args: Any) -> None:
        seen[:] = args
        np.from_dlpack(args[0])[...] += 10

    def copy(source: Any, target: Any) -> None:
        np.from_dlpack(target)[...] = np.from_dlpack(source)

    graphffi.register_global_func("plan_function.kernel", kernel)
    graphffi.register_global_func("plan_function.copy", copy)
    yield
    graphffi.remove_global_func("plan_function.kernel")
    graphffi.remove_global_func("plan_function.copy")


seen: list[Any] = []


def make(
    plan: str, counts: tuple[int, ...], num_updated: int = 0, names: str = "", conditions: str = ""
) -> Callable[..., Any]:
    tail = (num_updated, "mylib::op", names, conditions, "plan_function.copy")
    return plan_function("plan_function.kernel", plan, counts, *tail)


def zeros(*shape: int) -> Any:
    return np.zeros(shape, "float32")


def test_the_kernel_gets_its_arguments_in_the_plans_order() -> None:
    function = make("o0, bool(n0), (i0, i1), None, s0, f0, 7", (2, 1, 1, 1, 1))
    out = zeros(2)
    function(zeros(3), zeros(4), 1, 2.5, "text", out)
    assert seen[1] is True
    assert [x.shape[0] for x in seen[2]] == [3, 4]
    assert list(seen[3:]) == [None, "text", 2.5, 7]
    assert out.tolist() == [10, 10]


def test_an_operand_that_the_kernel_updates_stays_as_it_is() -> None:
    function = make("o0, n0", (0, 1, 1, 0, 0), num_updated=1)
    operand, updated = zeros(2) + 3, zeros(2)
    function(operand, 5, updated)
    assert (operand.tolist(), updated.tolist()) == ([3, 3], [13, 13])


def test_an_absent_operand_is_none() -> None:
    make("o0, i0", (1, 1, 0, 0, 0))(None, zeros(1))
    assert seen[1] is None


def test_a_result_on_the_cpu_does_not_hide_an_operand_on_a_gpu() -> None:
    function = make("o0, i0, int(stream)", (1, 1, 0, 0, 0))
    operand = OnDevice(2)
    with graphffi.use_stream("cuda:0", 0x1230):
        function(operand, zeros(1))
    stream = seen[2]
    seen.clear()  # the operand's memory ends with it
    assert stream == 0x1230


def test_conditions_are_checked_before_anything_is_done() -> None:
    conditions = "size 0 0\nconst 4\nge 0 1\ncheck 2 ValueError operand 'x': expected 4, got {0}\n"
    function = make("o0, i0", (1, 1, 0, 0, 0), conditions=conditions)
    out = zeros(1)
    function(zeros(4), out)
    with pytest.raises(ValueError, match="mylib::op: operand 'x': expected 4, got 3"):
        function(zeros(3), out)
    assert out.tolist() == [10]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "mylib::op: expected 2 arguments, got 0"),
        ((1, 2), "mylib::op: argument 0: expected a tensor, got another value"),
        ((zeros(1), None), "mylib::op: argument 1: expected a tensor, got another value"),
    ],
)
def test_wrong_arguments_are_refused(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make("o0, i0", (1, 1, 0, 0, 0))(*args)


def test_a_plan_that_names_something_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="mylib::op"):
        make("o0, i7", (1, 1, 0, 0, 0))


@pytest.mark.parametrize("num_updated", [-1, 2])
def test_more_updated_operands_than_outputs_are_refused(num_updated: int) -> None:
    with pytest.raises(ValueError, match="num_updated: expected at most the outputs"):
        make("o0, i0", (1, 1, 0, 0, 0), num_updated=num_updated)


def test_counts_are_five() -> None:
    with pytest.raises(ValueError, match="counts: expected 5"):
        make("o0", (0, 1, 0))


def test_a_missing_copy_function_is_named() -> None:
    with pytest.raises(RuntimeError, match="no_such_copy"):
        plan_function("k", "o0", (0, 1, 0, 0, 0), 0, "mylib::op", "", "", "no_such_copy")

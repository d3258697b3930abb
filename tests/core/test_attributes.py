# SPDX-License-Identifier: Apache-2.0
"""Values that attributes of ops and of calls without an op take, and which ones are refused."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import graphffi

X = np.ones(2, np.float32)


class Mode(str, enum.Enum):
    """An enum as programs for Python before 3.11 have it: `str()` gives ``Mode.FAST``."""

    FAST = "fast"


class Shouted(str):
    """A string that `str()` changes."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


def call_op(kind: str, value: Any) -> Any:
    """What a kernel gets for an attribute of an op."""
    taken: list[Any] = []
    op = graphffi.define_op(
        f"test_attributes::{kind}",
        schema=f"(Tensor x, {kind} a) -> Tensor",
        kernel=lambda x, a, out: taken.append(a),
        infer=lambda x, a: graphffi.like(x),
        override=True,
    )
    op(X, value)
    return taken[0]


def call_raw(value: Any) -> Any:
    """What a kernel gets for an argument of a call without an op."""
    taken: list[Any] = []
    graphffi.call_tvm_ffi(lambda x, a: taken.append(a), X, value, mutates=[0])
    return taken[0]


@pytest.mark.parametrize("value", [Mode.FAST, Shouted("fast")], ids=["enum", "subclass"])
def test_strings_of_subclasses_are_what_they_contain(value: str) -> None:
    assert call_op("str", value) == "fast"
    assert call_raw(value) == "fast"


class WithoutText:
    """Can't be shown."""

    def __repr__(self) -> str:
        raise KeyError("text")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (WithoutText(), r"got WithoutText \(its repr raises KeyError\)"),
        ([10**5000], r"got list \(its repr raises ValueError\)"),
    ],
    ids=["class", "large"],
)
def test_errors_say_that_a_value_has_no_text(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=rf"attribute 'a': expected a str, {text}"):
        call_op("str", value)


@pytest.mark.parametrize(
    "value",
    [np.complex64(1 + 2j), np.datetime64(3, "ns"), np.timedelta64(5, "Y"), np.void(b"12")],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number_in_numpy_is_no_float(value: Any) -> None:
    with pytest.raises(TypeError, match="attribute 'a': expected a float, got "):
        call_op("float", value)
    with pytest.raises(TypeError, match=f"argument #0: .*, got numpy.{type(value).__name__}"):
        graphffi.Function(lambda number: None)(value)


@pytest.mark.parametrize("kind", [np.dtype(">f4"), np.dtype(">i8")])
def test_dtypes_in_another_byte_order_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"attribute 'a': expected a dtype, got .*dtype\('>"):
        call_op("dtype", kind)


def test_lists_within_lists_have_a_limit() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return value

    assert call_raw(nested(16)) == nested(16)
    itself: list[Any] = []
    itself.append(itself)
    for value in (nested(17), itself):
        text = "argument #1: expected at most 16 lists within one another, got more"
        with pytest.raises(ValueError, match=text):
            call_raw(value)


def test_rules_that_change_a_list_change_no_attribute() -> None:
    taken = []

    def rule(x: Any, ns: list[int]) -> Any:
        ns.append(9)
        return graphffi.like(x)

    op = graphffi.define_op(
        "test_attributes::rule",
        schema="(Tensor x, int[] ns) -> Tensor",
        kernel=lambda x, ns, out: taken.append(ns),
        infer=rule,
    )
    for _ in range(2):  # the second call knows the result
        op(X, [1])
    assert taken == [[1], [1]]


def test_lists_of_operands_that_change_during_a_call_are_those_of_its_start() -> None:
    operands = [np.ones(2, np.float32), np.ones(3, np.float32)]
    op = graphffi.define_op(
        "test_attributes::changed",
        schema="(Tensor(a!)[] xs) -> ()",
        kernel=lambda xs: operands.clear(),
    )
    first, second = operands
    updated = op(operands)
    assert operands == []
    assert [id(x) for x in updated] == [id(first), id(second)]

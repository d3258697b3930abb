# SPDX-License-Identifier: Apache-2.0
"""`dtypes=`: what an op takes and gives, checked in calls and against its shape rule."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphffi

numbers = itertools.count()
SCHEMA = "(Tensor x, Tensor? w, Tensor[] rest, Tensor i) -> Tensor y"
DTYPES = "T, T, T, int32 | int64 -> T; T: float32 | bfloat16"


def define(schema: str, dtypes: str, infer: Any = None) -> Any:
    """An op whose kernel does nothing."""
    name = f"mytest::dtypes_{next(numbers)}"
    return graphffi.define_op(
        name,
        schema=schema,
        kernel=lambda *args: None,
        infer=infer or (lambda x, *rest: graphffi.like(x)),
        dtypes=dtypes,
    )


def zeros(kind: Any) -> np.ndarray[Any, Any]:
    return np.zeros(2, kind)


def test_a_call_that_fits_runs() -> None:
    op = define(SCHEMA, DTYPES)
    for kind in (np.float32, ml_dtypes.bfloat16):
        x = zeros(kind)
        assert op(x, None, [], zeros(np.int32)).dtype == x.dtype
        assert op(x, x, [x, x], zeros(np.int64)).dtype == x.dtype


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        (("f8", "f8", [], "i4"), "operand 'x': expected float32 or bfloat16, got float64; operand "
         "'w': expected float32 or bfloat16, got float64"),
        (("f4", None, [], "i2"), "operand 'i': expected int32 or int64, got int16"),
        (("f4", "bf", [], "i4"), "operand 'w': expected float32 as in operand 'x', got bfloat16"),
        (("f4", None, ["f4", "bf"], "i4"), "operand 'rest[1]': expected float32 as in operand 'x', "
         "got bfloat16"),
        (("f4", None, ["f2"], "i4"), "operand 'rest[0]': expected float32 or bfloat16, got "
         "float16"),
    ],
)  # fmt: skip
def test_all_that_do_not_fit_are_named(kinds: Any, problem: str) -> None:
    op = define(SCHEMA, DTYPES)

    def make(kind: Any) -> Any:
        if isinstance(kind, list):
            return [make(item) for item in kind]
        return None if kind is None else zeros(ml_dtypes.bfloat16 if kind == "bf" else kind)

    with pytest.raises(TypeError) as caught:
        op(*map(make, kinds))
    assert str(caught.value) == f"{op.name}: {problem}"


def test_what_the_shape_rule_returns_is_compared() -> None:
    op = define("(Tensor x) -> Tensor y", "_ -> int32", lambda x: graphffi.like(x, dtype="int64"))
    with pytest.raises(TypeError, match=r"shape rule: result 'y': expected int32, got int64$"):
        op(zeros("f4"))


def test_an_updated_operand_is_an_operand() -> None:
    name = f"mytest::dtypes_{next(numbers)}"
    op = graphffi.define_op(
        name, schema="(Tensor(a!) x) -> ()", kernel=lambda x: None, dtypes="float32"
    )
    op(zeros("f4"))
    with pytest.raises(TypeError, match=f"^{name}: operand 'x': expected float32, got float64$"):
        op(zeros("f8"))


@pytest.mark.parametrize(
    ("dtypes", "problem"),
    [
        ("float32", "expected '->' and the results' data types"),
        ("float32, float32 -> float32", "expected 1 group for the operands, got 2"),
        ("float32 -> ", "expected names of data types, '_', or variables .*, got ''"),
        ("float33x -> _", "expected names of data types, .*, got 'float33x'"),
        ("t -> _", "expected names of data types, .*, got 't'"),
        ("_ -> _; T: float32", "expected 'T' in a group, got no group with it"),
        ("T -> T; T float32", "expected 'T: float32 | bfloat16' after ';', got ' T float32'"),
        ("T -> T; float32: float32", "expected 'T: float32 | bfloat16' after ';', got"),
        ("T -> T; T: U", "expected names of data types, .*, got 'U'"),
    ],
)
def test_a_text_that_does_not_parse_is_refused(dtypes: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("|", r"\|")):
        define("(Tensor x) -> Tensor y", dtypes)


def test_another_text_is_another_definition() -> None:
    arguments: dict[str, Any] = {
        "schema": "(Tensor x) -> Tensor",
        "kernel": "some.kernel",
        "infer": graphffi.like,
    }
    graphffi.define_op("mytest::dtypes_again", dtypes="T -> T", **arguments)
    with pytest.raises(ValueError, match="with another dtypes"):
        graphffi.define_op("mytest::dtypes_again", dtypes="_ -> _", **arguments)

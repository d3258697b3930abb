# SPDX-License-Identifier: Apache-2.0
"""References of ops: what they are given, and what is refused."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphffi

pytest.importorskip("array_api_compat")

numbers = itertools.count()


def define(schema: str = "(Tensor x, float factor=2.0) -> Tensor", **options: Any) -> graphffi.Op:
    infer = options.pop("infer", lambda x, factor: graphffi.like(x))
    name = f"reference::op{next(numbers)}"
    return graphffi.define_op(name, schema=schema, infer=infer, **options)


def run(op: graphffi.Op, *operands: Any, attributes: tuple[Any, ...] = (2.0,)) -> list[Any]:
    definition = op.definition
    assert definition.reference is not None
    specs = [None if o is None else graphffi.TensorSpec(o.shape, o.dtype) for o in operands]
    results = definition.infer(specs, attributes)
    return definition.reference.run(definition, operands, attributes, results)


def test_a_reference_gets_the_namespace_of_its_operands(arrays: Any) -> None:
    op = define()

    @op.set_reference
    def reference(xp: Any, x: Any, factor: float) -> Any:
        return xp.sum(x * factor, axis=-1, keepdims=True) + xp.zeros_like(x)

    (result,) = run(op, arrays.make([[1.0, 2.0]]))
    assert type(result) is type(arrays.make([1.0]))
    np.testing.assert_array_equal(np.asarray(result), [[6.0, 6.0]])
    assert reference.__name__ == "reference"


def test_attributes_that_are_data_types_are_those_of_the_namespace(arrays: Any) -> None:
    op = define(
        "(Tensor x, dtype kind) -> Tensor", infer=lambda x, kind: graphffi.like(x, dtype=kind)
    )
    op.set_reference(lambda xp, x, kind: xp.astype(x, kind))
    (result,) = run(op, arrays.make([1.5]), attributes=(graphffi.dtype("int32"),))
    assert graphffi.dtype(result.dtype) == "int32"


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (3, TypeError, "expected a callable of (xp, x, factor), got int 3"),
        (
            lambda x: x,
            TypeError,
            "expected a callable of (xp, x, factor), got one of (x): too many",
        ),
    ],
)
def test_what_cannot_be_called_so_is_refused(function: Any, kind: Any, text: str) -> None:
    op = define()
    with pytest.raises(kind, match=re.escape(f"{op.name}: set_reference: {text}")):
        op.set_reference(function)
    assert op.definition.reference is None


def test_another_reference_is_refused_and_the_same_one_is_not() -> None:
    op = define()
    for _ in range(2):
        op.set_reference(lambda xp, x, factor: x * factor)
    with pytest.raises(ValueError, match="expected the reference that is set, got another one"):
        op.set_reference(lambda xp, x, factor: x + factor)


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (lambda xp, x, f: None, TypeError, "result 'out': expected a tensor, got None"),
        (lambda xp, x, f: (x, x), TypeError, "result 'out': expected a tensor, got a tuple of 2"),
        (
            lambda xp, x, f: xp.astype(x, xp.float64),
            TypeError,
            "result 'out': expected float32[3], got float64[3]",
        ),
        (lambda xp, x, f: x[1:], ValueError, "result 'out': expected float32[3], got float32[2]"),
    ],
)
def test_a_wrong_result_names_op_and_result(
    function: Callable[..., Any], kind: Any, text: str
) -> None:
    op = define()
    op.set_reference(function)
    with pytest.raises(kind, match=re.escape(f"{op.name}: reference: {text}")):
        run(op, np.ones(3, np.float32))


def test_updated_operands_come_after_the_results() -> None:
    op = define(
        "(Tensor(a!) cache, Tensor x) -> Tensor total", infer=lambda cache, x: graphffi.like(x)
    )
    op.set_reference(lambda xp, cache, x: (x, cache + x))
    cache = np.ones(2, np.float32)
    total, updated = run(op, cache, np.ones(2, np.float32), attributes=())
    assert (total[0], updated[0], cache[0]) == (1, 2, 1)
    other = define("(Tensor(a!) cache, Tensor x) -> Tensor", infer=lambda cache, x: x)
    other.set_reference(lambda xp, cache, x: x)
    with pytest.raises(TypeError, match="reference: expected 2 results, got "):
        run(other, cache, np.ones(2, np.float32), attributes=())


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    op = define()
    op.set_reference(lambda xp, x, factor: x * factor)
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(ModuleNotFoundError, match="pip install array-api-compat"):
        run(op, np.ones(3, np.float32))

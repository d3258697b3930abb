# SPDX-License-Identifier: Apache-2.0
"""Parameters by name only, and texts that are no data type or device."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import graphffi
from tests.core.array_calls import compiled, values


def test_parameters_behind_a_star_are_taken_by_name(arrays: Any) -> None:
    def kernel(x: Any, by: float, n: int, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * by + n

    options: dict[str, Any] = {"kernel": kernel, "vmap": "sequential"}
    of_schema = graphffi.define_op(
        f"override::star_{arrays.name}",
        schema="(Tensor x, *, float by=2.0, int n=0) -> Tensor",
        infer=lambda x, by, n: graphffi.like(x),
        **options,
    )

    @graphffi.op(f"override::star_of_function_{arrays.name}", **options)
    def of_function(x: graphffi.Tensor, *, by: float = 2.0, n: int = 0) -> graphffi.Tensor:
        return graphffi.like(x)

    x = arrays.make([1])
    for op in (of_schema, of_function):
        name = re.escape(op.name)
        by_name = compiled(arrays, lambda x, op=op: op(x, n=1, by=3))
        assert values(op(x, by=3)) == [3]
        assert values(by_name(x)) == [4]
        problem = f"{name}: argument 'by': expected by name, got by position; pass by="
        with pytest.raises(TypeError, match=problem):
            op(x, 3.0)
        with pytest.raises(Exception, match=problem):  # of the tracer
            compiled(arrays, lambda x, op=op: op(x, 3.0))(x)
        assert str(inspect.signature(op)).startswith("(x: graphffi.Tensor, *, by: float = 2.0, n")


@pytest.mark.parametrize("parameters", ["Tensor x, *", "*", "Tensor x, *, int n, *, int m"])
def test_a_star_without_parameters_behind_it_is_refused(parameters: str) -> None:
    with pytest.raises(ValueError, match=r"expected one '\*', with parameters behind it, got '\("):
        graphffi.define_op(
            "override::stars", schema=f"({parameters}) -> Tensor", kernel="no.kernel", infer=len
        )


@pytest.mark.parametrize(
    ("kind", "expected", "value", "end"),
    [
        *(("dtype", "a dtype", value, "; known") for value in ("", "int0", "cpu")),
        *(("Device", "a device", value, "") for value in ("", "cpu:-0", "cpu:", "cpu:+1")),
    ],
)
def test_a_text_that_is_no_data_type_or_device_is_one_error(
    arrays: Any, kind: str, expected: str, value: str, end: str
) -> None:
    op = graphffi.define_op(
        f"override::text_of_{kind}",
        schema=f"(Tensor x, {kind} named) -> Tensor",
        kernel="no.kernel",
        infer=lambda x, named: graphffi.like(x),
    )
    got = re.escape(f"'{value}'{end}")
    text = f"override::text_of_{kind}: attribute 'named': expected {expected}, got str {got}"
    with pytest.raises(TypeError, match=text):
        op(arrays.make([1]), value)

# SPDX-License-Identifier: Apache-2.0
"""Transformations and values that calls of kernels do not take: errors that name the op."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import jet, sparse

X = jnp.arange(4, dtype=jnp.float32)


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (
            lambda f: jax.linear_transpose(f, X)(X),
            "linear_transpose: expected a function that JAX knows to be linear, got a call of a "
            "kernel; use jax.vjp for an op with a gradient rule",
        ),
        (
            lambda f: jet.jet(f, (X,), ((X,),)),
            "jet: expected operations with a series, got a call of a kernel; use jax.vjp for an op "
            "with a gradient rule",
        ),
        (
            lambda f: sparse.sparsify(f)(sparse.BCOO.fromdense(jnp.eye(4))),
            "sparsify: expected operations on sparse arrays, got a call of a kernel; use "
            "x.todense()",
        ),
    ],
)
@pytest.mark.parametrize("mode", [lambda f: f, jax.jit])
def test_transformations_without_rule_name_the_op(
    ops: SimpleNamespace, transform: Callable[..., Any], text: str, mode: Callable[..., Any]
) -> None:
    with pytest.raises(NotImplementedError, match=re.escape(f"jaxtest::add_one: {text}")):
        transform(mode(ops.add_one))


class Param:
    """Like flax.nnx.Param."""

    def __jax_array__(self) -> Any:
        return X


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Param(), r"got Param .*; convert it with jax\.numpy\.asarray"),
        (
            np.zeros(3, jax.dtypes.float0),
            "expected numbers, got float0, JAX's tangents of integers; pass zeros of a floating-p",
        ),
    ],
)
def test_values_of_other_kinds_come_with_the_way_out(
    ops: SimpleNamespace, value: Any, text: str
) -> None:
    with pytest.raises(TypeError, match=f"jaxtest::add_one: operand 'x': .*{text}"):
        ops.add_one(value)
    for items in ([value], [X, value]):
        with pytest.raises(TypeError, match=f"jaxtest::sum_list: operand 'xs': .*{text}"):
            ops.sum_list(items)


@pytest.mark.skipif(not hasattr(jax, "new_ref"), reason="needs a newer jax")
def test_a_reference_is_to_be_read(ops: SimpleNamespace) -> None:
    ref = jax.new_ref(X)
    for f, got in ((ops.increment, "Ref"), (jax.jit(ops.increment), r"Ref\{float32\[.*\]\}")):
        text = rf"^jaxtest::increment: operand 'x': expected an array, got {got}; read it with ref"
        with pytest.raises(TypeError, match=text):
            f(ref)

    def update(ref: Any) -> None:
        ref[...] = ops.increment(ref[...])

    jax.jit(update)(ref)
    np.testing.assert_array_equal(ref[...], X + 1)

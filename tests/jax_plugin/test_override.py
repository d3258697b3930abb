# SPDX-License-Identifier: Apache-2.0
"""Ops that are defined anew, and functions whose name is given anew, as JAX sees them."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi


def scaling(factor: float) -> Any:
    """A kernel of which each factor makes another."""

    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * factor

    return kernel


def calling(op: graphffi.Op) -> Any:
    """A function of its own, which nothing has compiled."""

    def call(x: Any) -> Any:
        return op(x)

    return call


def define(name: str, kernel: Any, **options: Any) -> graphffi.Op:
    return graphffi.define_op(
        f"jaxoverride::{name}",
        schema="(Tensor x) -> Tensor",
        kernel=kernel,
        infer=graphffi.like,
        **options,
    )


def test_the_gradient_rule_is_replaced_with_the_op() -> None:
    op = define("gradient", scaling(2))
    op.register_vjp(lambda saved, grad: grad * 2)
    gradient = jax.jit(jax.grad(lambda x: op(x).sum()))
    x = jnp.ones(2, jnp.float32)
    assert gradient(x).tolist() == [2, 2]
    define("gradient", scaling(3), override=True)
    with pytest.raises(NotImplementedError, match="gradient rule"):
        gradient(x)
    op.register_vjp(lambda saved, grad: grad * 3)
    assert gradient(x).tolist() == [3, 3]


def test_an_op_may_change_its_signature() -> None:
    if "graphffi_torch" in sys.modules:
        pytest.skip("torch's operators keep their parameters")
    op = define("signature", scaling(2))
    x = jnp.ones(1, jnp.float32)
    assert jax.jit(op)(x).tolist() == [2]

    def kernel(x: Any, by: float, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * by

    graphffi.define_op(
        "jaxoverride::signature",
        schema="(Tensor x, float by=5.0) -> Tensor",
        kernel=kernel,
        infer=lambda x, by: graphffi.like(x),
        override=True,
    )
    assert jax.jit(op)(x).tolist() == [5]
    assert jax.jit(lambda x: op(x, by=7))(x).tolist() == [7]


def test_a_name_that_is_given_to_another_function_means_it_everywhere() -> None:
    graphffi.register_global_func("jaxoverride.named", scaling(2))
    op = define("named", "jaxoverride.named")
    x = jnp.ones(1, jnp.float32)
    compiled = jax.jit(op)
    assert op(x).tolist() == compiled(x).tolist() == [2]
    graphffi.remove_global_func("jaxoverride.named")
    graphffi.register_global_func("jaxoverride.named", scaling(3))
    assert op(x).tolist() == compiled(x).tolist() == [3]
    assert jax.jit(calling(op))(x).tolist() == [3]

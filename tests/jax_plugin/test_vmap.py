# SPDX-License-Identifier: Apache-2.0
"""jax.vmap by the rules of ops."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
from tests import differentiable_ops as ops

vmap = jax.vmap
X = jnp.arange(12.0).reshape(4, 3)
Y = X[::-1] - 5
MODES = pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])


def assert_close(got: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@MODES
@pytest.mark.parametrize(
    ("x", "y", "in_dims", "out_dims"),
    [
        (X, Y, 0, 0),
        (X, Y[0], (0, None), 0),
        (X[0], Y, (None, 0), 0),
        (X.T, Y, (1, 0), 0),
        (X.T, Y.T, 1, 1),
    ],
)
def test_broadcast(mode: Any, x: Any, y: Any, in_dims: Any, out_dims: int) -> None:
    expected = vmap(ops.reference_mul, in_dims, out_dims)(x, y)
    assert_close(mode(vmap(ops.mul, in_dims, out_dims))(x, y), expected)


def is_loop(f: Any, *arrays: Any) -> bool:
    return "while" in jax.jit(f).lower(*arrays).as_text()


def test_broadcast_is_one_call_and_sequential_a_loop() -> None:
    one = str(jax.make_jaxpr(vmap(ops.mul))(X, Y))
    assert one.count("tvm_ffi_call") == 1
    assert not is_loop(vmap(ops.mul), X, Y)
    assert is_loop(vmap(lambda x: ops.combine([x], None, [1.0])), X)


@MODES
def test_sequential_with_lists_and_absent_operands(mode: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return ops.combine([x, y], None, [1.0, 2.0])

    assert_close(mode(vmap(f))(X, Y), X + 2 * Y)
    assert_close(mode(vmap(f, (0, None)))(X, Y[1]), X + 2 * Y[1])
    biased = mode(vmap(lambda x, b: ops.combine([x, x], b, [1.0, 2.0]), (1, 1), 1))
    assert_close(biased(X, Y), 3 * X + Y)


@MODES
@pytest.mark.parametrize("op", [ops.scale_rows, ops.scale_rows_with_dims], ids=["own", "dims"])
def test_one_call_for_a_shared_weight_or_a_loop(mode: Any, op: Any) -> None:
    def check(in_dims: Any, *args: Any) -> None:
        expected = vmap(ops.reference_scale_rows, in_dims)(*args)
        assert_close(mode(vmap(op, in_dims))(*args), expected)
        assert is_loop(vmap(op, in_dims), *args) is (in_dims[1] == 0)

    batch = jnp.stack([X, Y])
    check((0, None), batch, X[0])
    check((1, None), batch, X[1])
    check((0, 0), batch, X[:2])
    check((None, 0), X, X[:2])


@MODES
def test_nested(mode: Any) -> None:
    batch = jnp.stack([X, Y])
    assert_close(mode(vmap(vmap(ops.mul)))(batch, batch), batch * batch)
    outer = mode(vmap(lambda a: vmap(lambda b: ops.mul(a, b))(X)))
    assert_close(outer(Y), Y[:, None] * X[None])
    three = mode(vmap(vmap(lambda x: ops.combine([x, x], None, [1.0, 2.0]))))
    assert_close(three(batch), 3 * batch)


@MODES
def test_updates(mode: Any) -> None:
    assert_close(mode(vmap(ops.accumulate))(jnp.ones((4, 3)), X), X + 1)
    # Arrays are values: every element of the batch updates its own copy.
    assert_close(mode(vmap(ops.accumulate, (None, 0)))(jnp.ones(3), X), X + 1)
    assert_close(mode(vmap(ops.accumulate, (0, None)))(X, X[1]), X + X[1])


@MODES
def test_gradients_in_a_batch_and_of_a_batch(mode: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return ops.mul(ops.mul(x, y), x).sum()

    assert_close(mode(vmap(jax.grad(f)))(X, Y), 2 * X * Y)
    assert_close(mode(jax.grad(lambda x: vmap(f)(x, Y).sum()))(X), 2 * X * Y)
    batch = jnp.stack([X, Y])

    def norm(scale: Any) -> Any:
        return lambda x, w: (scale(x, w)[0] ** 2).sum()

    for in_dims, w in (((0, None), X[1]), ((0, 0), X[:2])):
        assert_close(
            mode(vmap(jax.grad(norm(ops.scale_rows), (0, 1)), in_dims))(batch, w),
            vmap(jax.grad(norm(ops.reference_scale_rows), (0, 1)), in_dims)(batch, w),
        )
        assert_close(
            *(
                mode(jax.grad(lambda b, w, s=s, d=in_dims: vmap(norm(s), d)(b, w).sum(), (0, 1)))(
                    batch, w
                )
                for s in (ops.scale_rows, ops.reference_scale_rows)
            )
        )


def test_inside_and_around_loops() -> None:
    def run(mul: Any) -> Any:
        return lambda x: jax.lax.scan(lambda c, row: (mul(c, row), c), x[0], x)

    batch = jnp.stack([X, Y])
    assert_close(jax.jit(vmap(run(ops.mul)))(batch), vmap(run(ops.reference_mul))(batch))
    _, rows = jax.lax.scan(lambda c, b: (c, vmap(ops.mul)(b, b)), 0, batch)
    assert_close(rows, batch * batch)


def test_without_a_rule_it_says_what_to_do() -> None:
    message = "gradtest::no_rules: vmap: expected a batching rule, got none; define the op with"
    with pytest.raises(NotImplementedError, match=message):
        vmap(ops.no_rules)(X, Y)
    with pytest.raises(NotImplementedError, match=r"rules.none: vmap: expected a batching rule"):
        vmap(lambda x: graphffi.call_tvm_ffi("rules.none", x, out=graphffi.like(x)))(X)


def test_an_empty_batch() -> None:
    empty = jnp.zeros((0, 3))
    assert vmap(ops.mul)(empty, empty).shape == (0, 3)
    assert vmap(lambda x: ops.combine([x], None, [1.0]))(empty).shape == (0, 3)


def test_a_wrong_rule_is_reported() -> None:
    op = ops.with_wrong_batches("gradtest::bad_vmap_in_jax")
    for size, got in ((4, "[3]"), (1, "[1]")):
        text = f"result 'y': expected [{size}, 3] with the batch in front, got {got}"
        with pytest.raises(ValueError, match=re.escape(text)):
            vmap(op)(X[:size])
    with pytest.raises(TypeError, match="result 'y': expected float32, got bool"):
        vmap(op)(X[:2])
    with pytest.raises(TypeError, match="result 'y': expected a tensor, got int 3"):
        vmap(op)(X[:3])


def test_what_is_updated_in_a_batch_has_a_batch() -> None:
    op = graphffi.define_op(
        "gradtest::shared_cache_in_jax",
        schema="(Tensor x, Tensor(a!) cache) -> Tensor y",
        kernel=ops.mul.definition.kernels[0].reference,
        plan="x, cache, y",
        infer=lambda x, cache: graphffi.like(x),
        vmap=lambda size, batched, x, cache: op(x, cache),
    )
    text = "updated operand: expected [4, 4, 3] with the batch in front, got [4, 3]"
    with pytest.raises(ValueError, match=re.escape(text)):
        vmap(op, (0, None))(X, Y)
    assert [r.shape for r in vmap(op)(X, Y)] == [X.shape, Y.shape]

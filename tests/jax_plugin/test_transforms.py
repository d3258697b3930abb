# SPDX-License-Identifier: Apache-2.0
"""Ops inside of JAX's transformations and control flow."""

from __future__ import annotations

import importlib
import itertools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


def test_scan(ops: SimpleNamespace) -> None:
    def step(carry: Any, row: Any) -> Any:
        carry = ops.axpy(carry, row, a=2.0)
        return carry, ops.add_one(carry)

    def reference(carry: Any, row: Any) -> Any:
        carry = 2 * carry + row
        return carry, carry + 1

    got = jax.jit(lambda xs: jax.lax.scan(step, jnp.zeros(3), xs))(X)
    expected = jax.lax.scan(reference, jnp.zeros(3), X)
    for a, b in itertools.zip_longest(got, expected):
        np.testing.assert_allclose(a, b)


def test_cond_and_while(ops: SimpleNamespace) -> None:
    def f(x: Any) -> Any:
        x = jax.lax.cond(x[0, 0] > 1, ops.add_one, lambda x: x * 2, x)
        return jax.lax.while_loop(lambda x: x.sum() < 100, ops.add_one, x)

    def reference(x: Any) -> Any:
        x = jax.lax.cond(x[0, 0] > 1, lambda x: x + 1, lambda x: x * 2, x)
        return jax.lax.while_loop(lambda x: x.sum() < 100, lambda x: x + 1, x)

    for x in (X, X + 2):
        np.testing.assert_allclose(jax.jit(f)(x), reference(x))
        np.testing.assert_allclose(f(x), reference(x))


def test_nested_jit_and_remat(ops: SimpleNamespace) -> None:
    inner = jax.jit(ops.add_one)
    np.testing.assert_allclose(jax.jit(lambda x: inner(inner(x)))(X), X + 2)
    np.testing.assert_allclose(jax.jit(jax.checkpoint(ops.add_one))(X), X + 1)


def test_beside_ordinary_operations(ops: SimpleNamespace) -> None:
    f = jax.jit(lambda x: ops.add_one(x @ x.T) @ x)
    np.testing.assert_allclose(f(X), (X @ X.T + 1) @ X, rtol=1e-6)


def test_an_unused_call_is_removed(ops: SimpleNamespace) -> None:
    def f(x: Any) -> Any:
        ops.add_one(x)
        return x * 2

    assert "tvm_ffi.call" not in jax.jit(f).lower(X).compile().as_text()


def test_vmap_is_refused_by_name(ops: SimpleNamespace) -> None:
    with pytest.raises(
        NotImplementedError, match="jaxtest::add_one: vmap: expected a batching rule"
    ):
        jax.vmap(ops.add_one)(X)
    np.testing.assert_allclose(jax.lax.map(ops.add_one, X), X + 1)


NO_GRADIENT = "backward: expected a gradient rule, got none; register one with register_vjp, or "
NO_TANGENT = "jvp: expected a forward-mode rule, got none; register one with register_jvp, or "


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (lambda f: jax.grad(lambda x: f(x).sum()), NO_GRADIENT),
        (lambda f: jax.jit(jax.grad(lambda x: f(x).sum())), NO_GRADIENT),
        (lambda f: lambda x: jax.jvp(f, (x,), (x,)), NO_TANGENT),
        (lambda f: jax.jit(jax.jacfwd(f)), NO_TANGENT),
        (lambda f: lambda x: jax.linearize(f, x)[1](x), NO_TANGENT),
    ],
)
def test_differentiation_is_refused_by_name(
    ops: SimpleNamespace, transform: Any, text: str
) -> None:
    remedy = "define the op with gradient='reference'"
    with pytest.raises(NotImplementedError, match=f"jaxtest::add_one: {text}{remedy}"):
        transform(ops.add_one)(X)
    kernel = ops.add_one.definition.kernels[0].reference
    for function in (
        lambda x: graphffi_jax.call(kernel, x, out=x),
        lambda x: graphffi_jax.call(kernel, X, x * 1, mutates=[1]),
    ):
        with pytest.raises(NotImplementedError, match="got none; define an op that returns new"):
            transform(function)(X)


def test_what_nobody_differentiates_is_not_refused(ops: SimpleNamespace) -> None:
    def f(x: Any) -> Any:
        return x.sum(), ops.add_one(x)

    gradient, aux = jax.grad(f, has_aux=True)(X)
    np.testing.assert_allclose(gradient, np.ones_like(X))
    np.testing.assert_allclose(aux, X + 1)


def test_constants_of_a_gradient_may_pass_through(ops: SimpleNamespace) -> None:
    def f(x: Any) -> Any:
        return (x * ops.add_one(jax.lax.stop_gradient(x))).sum()

    np.testing.assert_allclose(jax.grad(f)(X), X + 1)


def test_custom_vjp(ops: SimpleNamespace) -> None:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return ops.axpy(x, x, a=2.0)

    f.defvjp(lambda x: (f(x), None), lambda _, g: (3 * g,))
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(X), np.full((2, 3), 3))


def test_symbolic_shapes(ops: SimpleNamespace) -> None:
    def rule(x: Any) -> Any:
        graphffi.check(x.shape[1] == 3, f"operand 'x': expected [n, 3], got {x.shape}")
        return graphffi.empty((x.shape[0] * 3,), x.dtype)

    op = graphffi.define_op(
        "jaxtest::symbolic",
        schema="(Tensor x) -> Tensor",
        kernel=ops.copy_bytes.definition.kernels[0].reference,
        infer=rule,
    )
    export = pytest.importorskip("jax.export")
    rows, columns = export.symbolic_shape("n, 3")
    exported = export.export(
        jax.jit(lambda x: (ops.add_one(x), op(x))),
        disabled_checks=[export.DisabledSafetyCheck.custom_call(graphffi_jax.inspect().targets[0])],
    )(jax.ShapeDtypeStruct((rows, columns), jnp.float32))
    assert str(exported.out_avals[1].shape[0]) == "3*n"
    for n in (1, 2, 5):
        x = jnp.ones((n, 3))
        first, second = exported.call(x)
        np.testing.assert_allclose(first, x + 1)
        np.testing.assert_allclose(second, np.ones(3 * n))


def test_shard_map_gives_local_shards(ops: SimpleNamespace) -> None:
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:  # before jax 0.7
        shard_map = importlib.import_module("jax.experimental.shard_map").shard_map
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    f = jax.jit(shard_map(ops.add_one, mesh=mesh, in_specs=spec, out_specs=spec))
    np.testing.assert_allclose(f(X), X + 1)

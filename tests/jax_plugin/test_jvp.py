# SPDX-License-Identifier: Apache-2.0
"""Forward mode by the rules of ops, and both modes inside of each other."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi

pytest.importorskip("array_api_compat")

from tests import forward_ops as ops

X = jax.random.normal(jax.random.key(0), (4, 3))
Y = X[::-1] - 0.5
WEIGHT = X[1]
numbers = itertools.count()
MODES = {"eager": lambda f: f, "jit": jax.jit}


def assert_close(got: Any, expected: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def jvp(f: Any) -> Any:
    return lambda *xs: jax.jvp(f, xs, xs)


def in_scan(f: Any) -> Any:
    def run(x: Any, y: Any, weight: Any) -> Any:
        return jax.lax.scan(lambda c, w: (c + f(x, y, w) * 0.01, c), 0.0, weight[None] + x)[0]

    return run


TRANSFORMS = {
    "jvp": jvp,
    "jvp of jit": lambda f: jvp(jax.jit(f)),
    "jacfwd": lambda f: jax.jacfwd(f, (0, 1, 2)),
    "linearize": lambda f: lambda *xs: jax.linearize(f, *xs)[1](*xs),
    "hessian": lambda f: jax.hessian(f, (0, 2)),
    "jacrev of jacfwd": lambda f: jax.jacrev(jax.jacfwd(f)),
    "jacfwd of jacfwd": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "grad": lambda f: jax.grad(f, (0, 1, 2)),
    "vmap of jvp": lambda f: lambda x, y, w: jax.vmap(jvp(lambda y: f(x, y, w)))(jnp.stack([y, x])),
    "jvp of vmap": lambda f: lambda x, y, w: jvp(jax.vmap(lambda y: f(x, y, w)))(jnp.stack([y, x])),
    "checkpoint": lambda f: jvp(jax.checkpoint(f)),
    "hessian of checkpoint": lambda f: jax.hessian(jax.checkpoint(f)),
    "jvp of scan": lambda f: jvp(in_scan(f)),
    "hessian of scan": lambda f: jax.hessian(in_scan(f)),
    "jvp of cond": lambda f: jvp(lambda x, y, w: jax.lax.cond(x[0, 0] > 0, f, f, x, y, w)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMS)
def test_both_modes_are_those_of_plain_jax(name: str) -> None:
    transform = TRANSFORMS[name]
    expected = jax.jit(transform(ops.use_all("reference_")))(X, Y, WEIGHT)
    assert_close(jax.jit(transform(ops.use_all("")))(X, Y, WEIGHT), expected)
    if name in ("jvp", "hessian"):
        assert_close(transform(ops.use_all(""))(X, Y, WEIGHT), expected)


NUMBERS = {
    "grad": lambda f, x: jax.grad(lambda x: f(x, x))(x),
    "grad of grad": lambda f, x: jax.grad(jax.grad(lambda x: f(f(x, x), x)))(x),
    "jvp": lambda f, x: jax.jvp(lambda x: f(x, jnp.float32(3)), (x,), (x,)),
    "jvp of jvp": lambda f, x: jvp(lambda x: jvp(lambda x: f(f(x, x), x))(x)[1])(x),
    "hessian": lambda f, x: jax.hessian(lambda x: f(f(x, x), x))(x),
    "linearize": lambda f, x: jax.linearize(f, x, x)[1](x, x),
    "vjp": lambda f, x: jax.vjp(f, x, x)[1](x),
    "grad of vmap": lambda f, x: jax.grad(lambda x: jax.vmap(f, (0, None))(X[0], x).sum())(x),
    "jvp of vmap": lambda f, x: jvp(lambda x: jax.vmap(f, (0, None))(X[0], x))(x),
    "vmap of grad": lambda f, x: jax.vmap(lambda y: jax.grad(lambda x: f(y, x))(x))(X[0]),
}


@pytest.mark.parametrize(
    "number", [2.0, np.float32(2), np.float64(2)], ids=lambda n: type(n).__name__
)
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_differentiated_like_arrays(name: str, number: Any) -> None:
    """JAX hands them to rules as they are."""
    expected = NUMBERS[name](jnp.multiply, number)
    assert_close(NUMBERS[name](ops.mul, number), expected)


def test_results_without_tangents_have_none() -> None:
    primals, tangents = jax.jvp(ops.largest, (X,), (Y,))
    assert tangents.position.dtype == jax.dtypes.float0
    np.testing.assert_array_equal(primals.position, np.argmax(X, -1))
    np.testing.assert_array_equal(
        tangents.value, np.take_along_axis(np.asarray(Y), np.argmax(X, -1)[:, None], -1)[:, 0]
    )
    gradient = jax.grad(lambda x: ops.largest(x).value.sum())(X)
    np.testing.assert_array_equal(np.argmax(X, -1), np.argmax(gradient, -1))


def define(name: str, **options: Any) -> graphffi.Op:
    return graphffi.define_op(
        f"forward::{name}_in_jax",
        schema="(Tensor x, Tensor y) -> Tensor",
        kernel=ops.mul.definition.kernels[0].reference,
        infer=lambda x, y: graphffi.like(x),
        override=True,
        **options,
    )


def test_operands_that_do_not_change_get_zeros_and_integers_none() -> None:
    op = graphffi.define_op(
        "forward::picky_in_jax",
        schema="(Tensor x, Tensor i, Tensor? z, Tensor[] xs) -> Tensor",
        kernel=ops.mul.definition.kernels[0].reference,
        plan="x, x, out",
        infer=lambda x, i, z, xs: graphffi.like(x),
        override=True,
    )
    seen: list[Any] = []

    def forward(saved: Any, x: Any, i: Any, z: Any, xs: Any) -> Any:
        seen[:] = [x, i, z, xs]
        return x

    op.register_jvp(forward)
    i = jnp.arange(3)
    jax.jvp(lambda x: op(x, i, None, [Y, x, i]), (X,), (Y,))
    assert_close(seen[0], Y)
    assert seen[1] is seen[2] is seen[3][2] is None
    assert_close(seen[3][:2], [jnp.zeros_like(Y), Y])


@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_given_names_what_to_register(mode: str) -> None:
    forward, backward = define("forward_only"), define("backward_only")
    forward.register_jvp(lambda saved, x, y: x + y)
    backward.register_vjp(lambda saved, grad: (grad, grad))
    assert_close(MODES[mode](jvp(forward))(X, Y)[1], X + Y)
    with pytest.raises(
        NotImplementedError,
        match="forward::forward_only_in_jax: backward: expected a gradient rule, got none; "
        "register one with register_vjp, or define the op with gradient='reference'",
    ):
        MODES[mode](jax.grad(lambda x: forward(x, x).sum()))(X)
    with pytest.raises(
        NotImplementedError,
        match="forward::backward_only_in_jax: jvp: expected a forward-mode rule, got none; "
        "register one with register_jvp, or define the op with gradient='reference'",
    ):
        MODES[mode](jvp(backward))(X, Y)


@pytest.mark.parametrize(
    ("returned", "kind", "text"),
    [
        ((None,), TypeError, "tangent of 'out': expected a tensor or None, got tuple"),
        (3, TypeError, "tangent of 'out': expected a tensor or None, got int 3"),
        (X[0], ValueError, r"tangent of 'out': expected float32\[4, 3\], got float32\[3\]"),
        (X > 0, TypeError, r"tangent of 'out': expected float32\[4, 3\], got bool\[4, 3\]"),
        (X * 1j, TypeError, r"tangent of 'out': expected float32\[4, 3\], got complex64"),
    ],
    ids=["too many", "number", "shape", "bool", "complex"],
)
def test_wrong_tangents_are_refused(returned: Any, kind: Any, text: str) -> None:
    op = define(f"wrong_tangents{next(numbers)}")
    op.register_jvp(lambda saved, x, y: returned)
    with pytest.raises(kind, match=f"{op.name}: jvp: {text}"):
        jvp(op)(X, Y)


def test_no_tangent_is_zero() -> None:
    op = define("no_tangent")
    op.register_jvp(lambda saved, x, y: None)
    assert_close(jvp(op)(X, Y)[1], jnp.zeros_like(X))


def test_a_rule_of_one_mode_goes_with_the_reference_of_the_other() -> None:
    op = define("mixed", gradient="reference")
    op.set_reference(lambda xp, x, y: x * y)
    op.register_vjp(lambda saved, grad: (grad * 7, None))
    assert_close(jax.grad(lambda x: op(x, Y).sum())(X), jnp.full_like(X, 7))
    assert_close(jvp(op)(X, Y)[1], 2 * X * Y)


def test_rules_for_complex_numbers_are_transposed() -> None:
    op = define("complex", gradient="reference", vmap="broadcast")
    op.set_reference(lambda xp, x, y: x * y)
    # The kernel takes float32 alone: what is differentiated is the reference.
    with op.use_kernel("reference"):
        x, y, grad = X + 1j * Y, Y - 2j * X, X - 1j
        assert_close(jax.vjp(op, x, y)[1](grad), jax.vjp(ops.reference_mul, x, y)[1](grad))
        assert_close(jvp(op)(x, y), jvp(ops.reference_mul)(x, y))

# SPDX-License-Identifier: Apache-2.0
"""Gradients by the rules of ops: eager, compiled, twice, in control flow."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
from tests import differentiable_ops as ops

X = jax.random.normal(jax.random.key(0), (4, 3))
Y = X[::-1] - 0.5
WEIGHT = X[1]
MODES = {"eager": lambda f: f, "jit": jax.jit}


def assert_close(got: Any, expected: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def use_all(prefix: str) -> Any:
    """The sum of squares of every kind of result of every kind of operand."""
    mul, scale, combine = (getattr(ops, prefix + n) for n in ("mul", "scale_rows", "combine"))

    def f(x: Any, y: Any, weight: Any) -> Any:
        scaled, inverse = scale(mul(x, y), weight, 1e-3)
        results = [combine([scaled, x], y, [0.5, 2.0]), combine([x * 2], None, [3.0]), inverse]
        return sum((r * r).sum() for r in results)

    return f


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_plain_jax(mode: str) -> None:
    got, expected = (
        MODES[mode](jax.value_and_grad(use_all(prefix), (0, 1, 2)))(X, Y, WEIGHT)
        for prefix in ("", "reference_")
    )
    assert_close(got, expected)


@pytest.mark.parametrize("mode", MODES)
def test_results_without_gradients_get_no_cotangent(mode: str) -> None:
    grad = MODES[mode](jax.grad(lambda x: ops.largest(x, 3).value.sum()))(X)
    np.testing.assert_array_equal(np.argmax(X, -1), np.argmax(grad, -1))
    assert grad.sum() == 4


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_gradients(mode: str) -> None:
    def cube(x: Any, y: Any) -> Any:
        return ops.mul(ops.mul(x, y), x).sum()

    def second(x: Any, y: Any) -> Any:
        return jax.grad(lambda y: jax.grad(cube)(x, y).sum())(y).sum()

    assert_close(MODES[mode](jax.grad(second))(X, Y), jnp.full_like(X, 2))


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_complex_numbers(mode: str) -> None:
    x, y, grad = X + 1j * Y, Y - 2j * X, X - 1j
    got, expected = (
        MODES[mode](lambda x, y, grad, mul=mul: jax.vjp(mul, x, y)[1](grad))(x, y, grad)
        for mul in (ops.mul_complex, ops.reference_mul)
    )
    assert_close(got, expected)


def test_a_rule_of_undifferentiable_ops_ends_the_chain_with_an_error() -> None:
    first = jax.grad(lambda x: (ops.largest(x, 3).value ** 2).sum())
    with pytest.raises(NotImplementedError, match="gradtest::put: backward: expected a gradient"):
        jax.grad(lambda x: first(x).sum())(X)


def test_a_rule_may_come_after_the_trace() -> None:
    op = graphffi.define_op(
        "gradtest::late_in_jax",
        schema="(Tensor x) -> Tensor",
        kernel=ops.no_rules.definition.kernels[0].reference,
        plan="x, x, out",
        infer=graphffi.like,
    )
    f = jax.jit(op)
    f(X)
    op.register_vjp(lambda saved, grad: grad)
    assert_close(jax.grad(lambda x: f(x).sum())(X), jnp.ones_like(X))


@pytest.mark.parametrize("vmap", ["sequential", "broadcast"])
def test_a_rule_that_comes_after_the_trace_is_that_of_one_element(vmap: str) -> None:
    def weigh(x: Any, out: Any) -> None:
        given = np.from_dlpack(x)
        np.from_dlpack(out)[...] = given * given.sum(-1, keepdims=True)

    op = graphffi.define_op(
        f"gradtest::late_{vmap}",
        schema="(Tensor x) -> Tensor",
        kernel=weigh,
        infer=graphffi.like,
        vmap=vmap,
    )
    f = jax.jit(jax.vmap(op))
    f(X)
    op.register_vjp(lambda s, grad: grad * s.x.sum() + (grad * s.x).sum(), save=("x",))
    op.register_jvp(lambda s, given: given * s.x.sum() + s.x * given.sum(), save=("x",))
    expected = jax.vmap(lambda x: x * x.sum())
    gradients = [jax.grad(lambda x, g=g: (g(x) * Y).sum())(X) for g in (f, expected)]
    assert_close(*gradients)
    assert_close(*(jax.jvp(g, (X,), (Y,))[1] for g in (f, expected)))


def test_derivatives_have_the_precision_of_the_trace() -> None:
    from graphffi_jax._transforms.batching import enable_x64

    square = graphffi.define_op(
        "gradtest::wide",
        schema="(Tensor x) -> Tensor",
        kernel=lambda x, out: np.square(np.from_dlpack(x), out=np.from_dlpack(out)),
        infer=graphffi.like,
    )
    square.register_vjp(lambda s, grad: 2 * grad * s.x, save=("x",))
    square.register_jvp(lambda s, given: 2 * given * s.x, save=("x",))
    with enable_x64(True):
        x = jnp.array([1.0, 2.0])
        _, pull = jax.vjp(square, x)
        _, push = jax.linearize(square, x)
        given = x + 1e-12
    for got in (*pull(given), push(given)):
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, 2 * np.asarray(given) * np.asarray(x))


def test_control_flow() -> None:
    def f(mul: Any) -> Any:
        def run(x: Any) -> Any:
            product = jax.lax.scan(lambda c, row: (mul(c, row), c), jnp.ones(3), x)[0]
            product = jax.lax.cond(product[0] > 0, lambda p: mul(p, p), lambda p: p, product)
            return jax.lax.fori_loop(0, 3, lambda _, p: mul(p, product), product).sum()

        return run

    for transform in (lambda f: f, jax.checkpoint):
        got, expected = (
            jax.jit(jax.grad(transform(f(mul))))(X) for mul in (ops.mul, ops.reference_mul)
        )
        assert_close(got, expected)


def test_checkpoint_runs_the_kernel_again() -> None:
    def loss(x: Any) -> Any:
        return jnp.sin(ops.mul(x, x)).sum()

    def count(jaxpr: Any) -> int:
        inner = [getattr(v, "jaxpr", v) for e in jaxpr.eqns for v in e.params.values()]
        called = sum(e.primitive.name == "tvm_ffi_call" for e in jaxpr.eqns)
        return called + sum(count(j) for j in inner if hasattr(j, "eqns"))

    again, once = (jax.make_jaxpr(jax.grad(f))(X).jaxpr for f in (jax.checkpoint(loss), loss))
    assert count(again) == count(once) + 1
    assert_close(jax.grad(jax.checkpoint(loss))(X), 2 * X * jnp.cos(X * X))


def test_gradients_of_equal_calls_are_one_to_jax() -> None:
    """It keeps what it has found for an operation, by its parameters."""

    def gradient_rules() -> Any:
        jaxpr = jax.make_jaxpr(lambda *xs: jax.linearize(ops.mul, *xs)[1](*xs))(X, Y)
        (rules,) = {e.params["rules"] for e in jaxpr.eqns if "rules" in e.params}
        return rules

    assert gradient_rules() == gradient_rules()


def test_only_what_is_saved_is_kept() -> None:
    _, pull = jax.vjp(lambda x: ops.combine([x, x], None, [1.0, 2.0]), X)
    assert [a.shape for a in jax.tree.leaves(pull) if getattr(a, "shape", ())] == []


def jvp(f: Any) -> Any:
    return lambda x: jax.jvp(f, (x,), (x,))


def multiply_rows(x: Any) -> Any:
    return jax.lax.scan(lambda c, row: (ops.mul(c, row), c), jnp.ones(3), x)[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "transform",
    {
        "jvp": jvp,
        "jvp of jit": lambda f: jvp(jax.jit(f)),
        "jacfwd": jax.jacfwd,
        "hessian": lambda f: jax.hessian(lambda x: f(x).sum()),
        "grad of jvp": lambda f: jax.grad(lambda x: jvp(f)(x)[1].sum()),
        "jvp of grad": lambda f: jvp(jax.grad(lambda x: f(x).sum())),
        "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
        "vmap of linearize": lambda f: lambda x: jax.vmap(jax.linearize(f, x)[1])(x[None]),
        "vmap of jvp": lambda f: jax.vmap(jvp(f)),
        "jvp of vmap": lambda f: jvp(jax.vmap(f)),
        "jvp of map": lambda f: jvp(lambda x: jax.lax.map(f, x)),
        "checkpoint": lambda f: jvp(jax.checkpoint(f)),
        "scan": lambda f: jvp(multiply_rows),
        "cond": lambda f: jvp(lambda x: jax.lax.cond(x[0, 0] > 0, f, lambda x: x, x)),
        "while": lambda f: jvp(lambda x: jax.lax.while_loop(lambda p: p[0, 0] < 9, f, x)),
    }.items(),
    ids=lambda item: item[0],
)
def test_forward_mode_is_refused_by_name(transform: Any, mode: str) -> None:
    with pytest.raises(NotImplementedError, match="gradtest::mul: jvp: expected a forward-mode"):
        MODES[mode](transform[1](lambda x: ops.mul(x, x)))(X)


def test_errors_of_rules_reach_the_caller() -> None:
    returned: list[Any] = []
    op = ops.with_gradients("gradtest::bad_rule_in_jax", returned)
    for value, kind, message in (
        (ZeroDivisionError("on purpose"), ZeroDivisionError, "on purpose"),
        ((None,), TypeError, "rule_in_jax: backward: expected 2 gradients, for x, y, got 1"),
        ((X * 1j, None), TypeError, r"gradient of 'x': expected float32\[4, 3\], got complex64"),
        ((X > 0, None), TypeError, r"gradient of 'x': expected float32\[4, 3\], got bool\[4, 3\]"),
        ((X[0], None), ValueError, r"gradient of 'x': expected float32\[4, 3\], got float32\[3\]"),
    ):
        returned.append(value)
        with pytest.raises(kind, match=message):
            jax.grad(lambda x: op(x, Y).sum())(X)
    returned.append((None, Y.astype("bfloat16")))
    first, second = jax.grad(lambda x, y: op(x, y).sum(), (0, 1))(X, Y)
    assert not first.any()
    assert second.dtype == jnp.float32


def test_integer_operands_are_constants() -> None:
    op = graphffi.define_op(
        "gradtest::put_with_gradient",
        schema="(Tensor values, Tensor positions, int n) -> Tensor",
        kernel=ops.put.definition.kernels[0].reference,
        plan="values, positions, out",
        infer=lambda values, positions, n: graphffi.like(values, shape=(*values.shape, n)),
    )
    op.register_vjp(lambda saved, grad: (grad.sum(-1), None))
    positions = jnp.array([0, 1, 2, 0], jnp.int32)
    grad = jax.grad(lambda v, p: op(v, p, 3).sum(), 0)
    np.testing.assert_array_equal(grad(X[:, 0], positions), np.full(4, 3))
    zeros = jax.grad(lambda v, p: op(v, p, 3).sum(), (0, 1), allow_int=True)(X[:, 0], positions)[1]
    assert zeros.dtype == jax.dtypes.float0


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 1, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = jnp.ones(shape)
    assert_close(jax.grad(lambda x: ops.mul(x, x).sum())(x), 2 * x)


def test_rules_that_change_a_list_change_no_later_call() -> None:
    taken = []

    def backward(saved: Any, grad: Any) -> Any:
        taken.append(list(saved.ns))
        saved.ns.append(9)
        return grad

    op = graphffi.define_op(
        "mytest::changed_list",
        schema="(Tensor x, int[] ns) -> Tensor",
        kernel=lambda x, ns, out: None,
        infer=lambda x, ns: graphffi.like(x),
    )
    op.register_vjp(backward)
    for _ in range(2):
        jax.grad(lambda x: op(x, [1]).sum())(X)
    assert taken == [[1], [1]]

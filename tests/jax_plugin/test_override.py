# SPDX-License-Identifier: Apache-2.0
"""Ops that are defined anew, and functions whose name is given anew, as JAX sees them."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
from graphffi_jax._framework import FRAMEWORK


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


def test_a_call_is_gone_back_through_by_the_rule_that_it_had() -> None:
    op = define("pulled", scaling(2))
    op.register_vjp(lambda saved, grad: grad * 2 * saved.x, save=("x",))
    x = jnp.full(2, 3, jnp.float32)
    _, pull = jax.vjp(op, x)
    define("pulled", scaling(3), override=True)
    assert pull(x)[0].tolist() == [18, 18]
    op.register_vjp(lambda saved, grad: grad * 3 * saved.out, save=("out",))
    assert pull(x)[0].tolist() == [18, 18]
    assert jax.vjp(op, x)[1](x)[0].tolist() == [81, 81]


def test_a_rule_is_replaced_alone() -> None:
    op = define("rule", scaling(2))
    op.register_vjp(lambda saved, grad: grad * 2)
    op.register_jvp(lambda saved, x: x * 2)
    gradient = jax.jit(jax.grad(lambda x: op(x).sum()))
    tangent = jax.jit(lambda x: jax.jvp(op, (x,), (x,))[1])
    x = jnp.ones(2, jnp.float32)
    assert gradient(x).tolist() == tangent(x).tolist() == [2, 2]
    _, pull = jax.vjp(op, x)
    op.register_vjp(lambda saved, grad: grad * 3, override=True)
    op.register_jvp(lambda saved, x: x * 4, override=True)
    assert gradient(x).tolist() == [3, 3]
    assert tangent(x).tolist() == [4, 4]
    assert pull(x)[0].tolist() == [2, 2]


def test_a_constant_of_a_program_is_computed_anew() -> None:
    op = define("constant", scaling(2))

    @jax.jit
    def function(x: Any) -> Any:
        with jax.ensure_compile_time_eval():
            constant = op(jnp.ones(2, jnp.float32))
        return x + constant

    x = jnp.zeros(2, jnp.float32)
    assert function(x).tolist() == [2, 2]
    define("constant", scaling(3), override=True)
    assert function(x).tolist() == [3, 3]


def test_a_traced_call_of_a_former_op_has_no_rules() -> None:
    x = jnp.ones(2, jnp.float32)

    op = define("held", scaling(2), vmap="sequential")
    op.register_vjp(lambda saved, grad: grad * 2)
    held = jax.make_jaxpr(op)(x)

    def run(x: Any) -> Any:
        return jax.core.eval_jaxpr(held.jaxpr, held.consts, x)[0]

    assert jax.grad(lambda x: run(x).sum())(x).tolist() == [2, 2]
    define("held", scaling(2), override=True, vmap="sequential")  # the same
    assert jax.grad(lambda x: run(x).sum())(x).tolist() == [2, 2]
    define("held", scaling(5), override=True, vmap="sequential")
    op.register_vjp(lambda saved, grad: grad * 5)
    assert run(x).tolist() == [2, 2]
    message = "jaxoverride::held: expected the op of the trace, got one that was defined anew"
    with pytest.raises(RuntimeError, match=message):
        jax.grad(lambda x: run(x).sum())(x)
    with pytest.raises(RuntimeError, match=message):
        jax.vmap(run)(x[None])


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


def test_a_call_runs_as_the_definition_says_that_bound_it() -> None:
    if "graphffi_torch" in sys.modules:
        pytest.skip("torch's operators keep their parameters")

    def minus(x: Any, y: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) - np.from_dlpack(y)

    def define_minus(parameters: str, **options: Any) -> graphffi.Op:
        return graphffi.define_op(
            "jaxoverride::minus",
            schema=f"({parameters}) -> Tensor",
            kernel=minus,
            plan="x, y, out",
            infer=lambda x, y: graphffi.like(x),
            **options,
        )

    op = define_minus("Tensor x, Tensor y")
    before = op.definition
    five, two = (jnp.full(1, value, jnp.float32) for value in (5, 2))
    bound = before.bind((five, two), {})
    define_minus("Tensor y, Tensor x", override=True)  # by another thread, between the two
    assert FRAMEWORK.call_op(op, before, bound).tolist() == [3]
    assert op(two, five).tolist() == [3]


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


def counted(function: Any) -> tuple[Any, list[Any]]:
    """The function, compiled, and a list of what was traced for it."""
    traces: list[Any] = []

    def traced(x: Any) -> Any:
        traces.append(x)
        return function(x)

    return jax.jit(traced), traces


def test_only_what_changes_is_compiled_anew(tmp_path: Any) -> None:
    x = jnp.ones(2, jnp.float32)
    eager, compiled = (define(f"anew_{kind}", scaling(2)) for kind in ("eager", "compiled"))
    functions = [counted(calling(compiled)), counted(lambda x: x + 1)]

    def traces() -> list[int]:
        for function, _ in functions:
            function(x)
        return [len(found) for _, found in functions]

    before = eager(x), traces()
    # An op that is in no program: added to, forced and tuned.
    eager.add_kernel(scaling(2), name="other")
    with eager.use_kernel("other"):
        assert eager(x).tolist() == before[0].tolist()
    graphffi.tune(eager, [(x,)], tmp_path / "eager.json", seconds=1e-3)
    graphffi.use_tuning(tmp_path / "eager.json")
    assert eager(x).tolist() == before[0].tolist()
    assert traces() == before[1] == [1, 1]
    # One that is, and goes on with the kernel that it has.
    graphffi.tune(compiled, [(x,)], tmp_path / "compiled.json", seconds=1e-3)
    graphffi.use_tuning(tmp_path / "compiled.json")
    assert traces()[0] == 1
    # JAX drops all that it compiled, once for all changes until the op is traced again.
    compiled.add_kernel(scaling(3), name="other")
    compiled.add_kernel(scaling(4), name="another")
    with compiled.use_kernel("other"):
        assert functions[0][0](x).tolist() == [3, 3]
    assert functions[0][0](x).tolist() == [2, 2]
    assert len(functions[0][1]) == 3


def test_an_executable_keeps_the_kernel_that_it_was_made_with() -> None:
    op = define("executable", scaling(2))
    x = jnp.ones(2, jnp.float32)
    lowered = jax.jit(calling(op)).lower(x)
    executable = lowered.compile()
    define("executable", scaling(3), override=True)
    assert executable(x).tolist() == lowered.compile()(x).tolist() == [2, 2]
    assert jax.jit(calling(op))(x).tolist() == op(x).tolist() == [3, 3]


def test_kernels_of_one_code_are_told_apart_by_what_no_text_tells() -> None:
    def scaling_by(factors: Any) -> Any:
        def kernel(x: Any, out: Any) -> None:
            np.from_dlpack(out)[...] = np.from_dlpack(x) * next(factors)

        return kernel

    op = define("untold", scaling_by(itertools.repeat(2)))
    x = jnp.ones(2, jnp.float32)
    executable = jax.jit(calling(op)).lower(x).compile()
    define("untold", scaling_by(itertools.repeat(3)), override=True)
    assert executable(x).tolist() == [2, 2]
    assert jax.jit(calling(op))(x).tolist() == op(x).tolist() == [3, 3]

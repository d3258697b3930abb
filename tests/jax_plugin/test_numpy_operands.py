# SPDX-License-Identifier: Apache-2.0
"""Calls whose operands are NumPy arrays: part of the program that JAX traces, if it traces one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi

X = np.arange(3, dtype=np.float32)
seen: list[float] = []


def _note(x: Any) -> None:
    seen.append(np.from_dlpack(x).sum().item())


@pytest.fixture(params=["op", "call_tvm_ffi"])
def note(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "call_tvm_ffi":
        return lambda x: graphffi.call_tvm_ffi(_note, x, has_side_effect="ordered")
    return graphffi.define_op(
        "numpy_operands::note",
        schema="(Tensor x) -> ()",
        kernel=_note,
        has_side_effect="ordered",
    )


def test_effects_happen_in_each_call_of_the_program(note: Callable[..., Any]) -> None:
    f = jax.jit(lambda y: [y + 1, note(X)][0])
    seen.clear()
    f(jnp.ones(2))
    f(jnp.ones(2))
    f(jnp.ones(2))
    jax.effects_barrier()
    assert seen == [3.0] * 3


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_updates_leave_the_array_of_the_caller_alone(
    ops: SimpleNamespace, library: str, transform: Callable[..., Any]
) -> None:
    own = X.copy()
    calls = (
        ops.increment,
        lambda x: graphffi.call_tvm_ffi(f"{library}::increment", x, mutates=[0]),
    )
    for call in calls:
        updated: list[Any] = []

        def f(y: Any, call: Any = call, updated: list[Any] = updated) -> Any:
            updated.append(call(own))
            return y.sum() + (updated[-1] * 0).sum()

        transform(f)(jnp.ones(2) if transform is not jax.vmap else jnp.ones((1, 2)))
        assert isinstance(updated[0], jax.Array)
        assert own.tolist() == X.tolist()


def test_other_calls_run_at_once(ops: SimpleNamespace) -> None:
    assert isinstance(ops.add_one(X), np.ndarray)

    def f(y: Any) -> Any:
        with jax.ensure_compile_time_eval():
            known = ops.add_one(X)
        assert known.tolist() == (X + 1).tolist()
        return y + known

    np.testing.assert_array_equal(jax.jit(f)(X), 2 * X + 1)


def test_python_kernels_call_ops_on_numpy_arrays(ops: SimpleNamespace) -> None:
    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = ops.add_one(np.from_dlpack(x))

    def f(x: Any) -> Any:
        return graphffi.call_tvm_ffi(kernel, x, out=graphffi.like(x))

    np.testing.assert_array_equal(f(jnp.asarray(X)), X + 1)
    np.testing.assert_array_equal(jax.jit(f)(X), X + 1)


def test_a_program_without_any_array_of_jax_imports_the_plugin(
    run_script: Callable[..., Any], library: str
) -> None:
    script = """
import sys
import jax, numpy as np
import graphffi
x = np.zeros(2, np.float32)
def f():
    return graphffi.call_tvm_ffi(sys.argv[1] + "::add_one", x, out=graphffi.like(x))
print("add_one" in jax.jit(f).lower().as_text())
"""
    result = run_script(script, library)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "True"

# SPDX-License-Identifier: Apache-2.0
"""Calls under `jax.checkpoint`, of kernels that may run again and of others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi

X = jnp.linspace(0.5, 1.5, 8)
POLICIES = {
    name: getattr(jax.checkpoint_policies, name)
    for name in ("nothing_saveable", "everything_saveable", "dots_saveable")
}


class Counting:
    """An op that multiplies by the number of the call."""

    def __init__(self, name: str, **options: Any) -> None:
        self.count = 0
        self.op = graphffi.define_op(
            name, schema="(Tensor x) -> Tensor", kernel=self.kernel, infer=graphffi.like, **options
        )
        self.op.register_vjp(lambda saved, grad: grad * saved.out / saved.x, save=("x", "out"))

    def kernel(self, x: Any, out: Any) -> None:
        self.count += 1
        np.from_dlpack(out)[...] = np.from_dlpack(x) * self.count

    def step(self, x: Any) -> Any:
        """A function of which the gradient needs the op's result."""
        return jnp.cos(self.op(jnp.sin(x))) * x

    def is_right(self, run: Any) -> bool:
        """Whether a run of `step` has the gradient of one call."""
        self.count = 0
        found = jax.grad(lambda x: run(x).sum())(X)
        expected = jax.grad(lambda x: (jnp.cos(jnp.sin(x)) * x).sum())(X)
        return bool(np.allclose(found, expected)) and self.count == 1


@pytest.fixture(scope="module")
def once() -> Counting:
    return Counting("remat::once", recompute=False)


RUNS = {
    "checkpoint": jax.checkpoint,
    "jit": lambda f: jax.jit(jax.checkpoint(f)),
    "of jit": lambda f: jax.checkpoint(jax.jit(f)),
    "nested": lambda f: jax.checkpoint(jax.checkpoint(f)),
    "scan": lambda f: (
        lambda x: jax.lax.scan(jax.checkpoint(lambda c, _: (f(c), None)), x, None, length=1)[0]
    ),
    "cond": lambda f: jax.checkpoint(lambda x: jax.lax.cond(x[0] > 0, f, lambda y: y, x)),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_results_are_kept(once: Counting, run: Any) -> None:
    assert once.is_right(run(once.step))


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_decide_for_other_ops_alone(once: Counting, policy: str) -> None:
    often = Counting(f"remat::{policy}")
    assert once.is_right(jax.checkpoint(once.step, policy=POLICIES[policy]))
    is_kept = policy == "everything_saveable"
    assert often.is_right(jax.checkpoint(often.step, policy=POLICIES[policy])) == is_kept


def test_vmap_of_what_may_not_run_again_is_refused() -> None:
    batched = Counting("remat::batched", recompute=False, vmap="broadcast")
    with pytest.raises(NotImplementedError, match="remat::batched: vmap: expected an op that may"):
        jax.vmap(jax.checkpoint(batched.step))(X[None])

# SPDX-License-Identifier: Apache-2.0
"""Kernels that may not run again, under everything that computes results again for gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import graphffi

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.linspace(0.5, 1.5, 64)
BUDGETS = (0.0, 0.3, 1.0)
BACKENDS = pytest.mark.parametrize("backend", ["aot_eager", "inductor"])


class Counting:
    """An op that multiplies by the number of the call."""

    def __init__(self, name: str, **options: Any) -> None:
        self.count = 0
        self.op = graphffi.define_op(
            name,
            schema="(Tensor x) -> (Tensor y, Tensor n)",
            kernel=self.kernel,
            infer=lambda x: (graphffi.like(x), graphffi.like(x)),
            **options,
        )
        self.op.register_vjp(lambda saved, y, n: y * saved.n, save=("n",))

    def kernel(self, x: Any, y: Any, n: Any) -> None:
        self.count += 1
        torch.from_dlpack(n).fill_(self.count)
        torch.from_dlpack(y).copy_(torch.from_dlpack(x) * self.count)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        """A function of which the gradient needs the op's result."""
        return self.op(x.sin())[0].cos() * x

    def is_right(self, run: Callable[..., Any]) -> bool:
        """Whether a run of `step` has the gradient of one call."""
        torch._dynamo.reset()
        self.count = 0
        x, expected = X.clone().requires_grad_(), X.clone().requires_grad_()
        run(x).sum().backward()
        (expected.sin().cos() * expected).sum().backward()
        return self.count == 1 and torch.allclose(x.grad, expected.grad)


@pytest.fixture(scope="module")
def once() -> Counting:
    return Counting("recompute::once", recompute=False)


def checkpointed(run: Callable[..., Any], x: torch.Tensor, **options: Any) -> Any:
    return checkpoint(run, x, **{"use_reentrant": False, **options})


@BACKENDS
@pytest.mark.parametrize("budget", BUDGETS)
def test_partitioners_save_results(once: Counting, backend: str, budget: float) -> None:
    with torch._functorch.config.patch(activation_memory_budget=budget):
        assert once.is_right(torch.compile(once.step, backend=backend, fullgraph=True))


@BACKENDS
def test_partitioners_save_results_of_checkpoints(once: Counting, backend: str) -> None:
    run = torch.compile(lambda x: checkpointed(once.step, x), backend=backend, fullgraph=True)
    assert once.is_right(run)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", None])
@pytest.mark.parametrize("is_reentrant", [True, False])
def test_eager_checkpoints_are_refused(
    once: Counting, backend: str | None, is_reentrant: bool
) -> None:
    step = once.step if backend is None else torch.compile(once.step, backend=backend)
    with pytest.raises(NotImplementedError, match="recompute::once: recompute: expected results "):
        once.is_right(lambda x: checkpointed(step, x, use_reentrant=is_reentrant))


def test_checkpoints_that_save_the_results_are_right(once: Counting) -> None:
    contexts = functools.partial(
        create_selective_checkpoint_contexts, [torch.ops.recompute.once.default]
    )
    assert once.is_right(lambda x: checkpointed(once.step, x, context_fn=contexts))


def test_gradient_rules_may_call_what_may_not_run_again(once: Counting) -> None:
    twice = graphffi.define_op(
        "recompute::rule",
        schema="(Tensor x) -> Tensor",
        kernel="recompute.copy",
        infer=graphffi.like,
    )
    twice.register_vjp(lambda saved, grad: once.op(grad)[0])
    graphffi.register_global_func(
        "recompute.copy",
        lambda x, y: torch.from_dlpack(y).copy_(torch.from_dlpack(x)) is None,
        override=True,
    )
    x = X.clone().requires_grad_()
    once.count = 0
    twice(x).sum().backward()
    assert once.count == 1


@BACKENDS
def test_two_calls_are_not_merged(once: Counting, backend: str) -> None:
    once.count = 0
    run = torch.compile(lambda x: once.op(x)[0] + once.op(x)[0], backend=backend, fullgraph=True)
    torch.testing.assert_close(run(X.clone().requires_grad_()).detach(), X * 3)


@pytest.mark.skipif(
    torch.__version__.startswith(("2.10.", "2.11.", "2.12.")),
    reason="operators are tagged from torch 2.13 on",
)
def test_calls_on_frozen_weights_are_made_in_each_run(once: Counting) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(X.clone())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return once.op(self.weight)[0] + x

    with torch._inductor.config.patch(freezing=True), torch.no_grad():
        run = torch.compile(Model(), fullgraph=True)
        once.count = 0
        for count in (1, 2, 3):
            torch.testing.assert_close(run(X), X * (count + 1))


def test_torch_computes_other_results_again() -> None:
    """`_repairs._with_kept_results`: without the declaration, calls are made as before."""
    often = Counting("recompute::often")
    assert not often.is_right(lambda x: checkpointed(often.step, x))
    with torch._functorch.config.patch(activation_memory_budget=0.0):
        assert not often.is_right(torch.compile(often.step, backend="aot_eager"))


def test_the_declaration_is_a_bool() -> None:
    with pytest.raises(TypeError, match="recompute::text: recompute: expected a bool, got str 'n'"):
        Counting("recompute::text", recompute="n")

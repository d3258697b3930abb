# SPDX-License-Identifier: Apache-2.0
"""Ops that are defined anew, as torch sees them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import graphffi

SCHEMA = "(Tensor x, float by=1.0) -> Tensor"


def scaling(factor: float) -> Any:
    """A kernel of which each factor makes another."""

    def kernel(x: Any, by: float, out: Any) -> None:
        torch.from_dlpack(out).copy_(torch.from_dlpack(x) * factor * by)

    return kernel


def calling(op: graphffi.Op) -> Any:
    """A function of its own, which nothing has compiled."""

    def call(x: Any) -> Any:
        return op(x)

    return call


def define(name: str, factor: float, schema: str = SCHEMA, **options: Any) -> graphffi.Op:
    return graphffi.define_op(
        f"torchoverride::{name}",
        schema=schema,
        kernel=scaling(factor),
        infer=lambda x, by: graphffi.like(x),
        **options,
    )


def test_the_gradient_rule_is_replaced_with_the_op() -> None:
    op = define("gradient", 2)
    op.register_vjp(lambda saved, grad: grad * 2)
    x = torch.ones(2, requires_grad=True)
    compiled = torch.compile(calling(op), fullgraph=True)

    def gradient(function: Any) -> list[float]:
        (grad,) = torch.autograd.grad(function(x).sum(), x)
        return [float(value) for value in grad]

    assert gradient(op) == gradient(compiled) == [2, 2]
    define("gradient", 3, override=True)
    with pytest.raises(NotImplementedError, match="expected a gradient rule, got none"):
        gradient(op)
    op.register_vjp(lambda saved, grad: grad * 3)
    assert gradient(op) == gradient(compiled) == [3, 3]


def test_a_graph_recorded_before_goes_back_by_the_rule_of_then() -> None:
    op = define("recorded", 2)
    op.register_vjp(lambda saved, grad: grad * 2)
    x = torch.ones(1, requires_grad=True)
    y = op(x)
    define("recorded", 3, override=True)
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 2


@pytest.mark.filterwarnings("ignore:.*is deprecated")  # in torch's own forward mode
def test_a_rule_is_replaced_alone() -> None:
    op = define("rule", 2)

    def set_rules(factor: float, **options: bool) -> None:
        op.register_vjp(lambda saved, grad: grad * factor, **options)
        op.register_jvp(lambda saved, x: x * factor, **options)

    x = torch.ones(1, requires_grad=True)
    compiled = torch.compile(calling(op), fullgraph=True)

    def derivatives(function: Any) -> list[float]:
        (grad,) = torch.autograd.grad(function(x).sum(), x)
        _, tangent = torch.func.jvp(op, (x.detach(),), (x.detach(),))
        return [grad.item(), tangent.item()]

    set_rules(2)
    assert derivatives(op) == derivatives(compiled) == [2, 2]
    recorded = op(x).sum()
    with pytest.raises(ValueError, match="got another one; pass override=True to replace it"):
        set_rules(3)
    assert derivatives(op) == derivatives(compiled) == [2, 2]
    set_rules(3, override=True)
    assert derivatives(op) == derivatives(compiled) == [3, 3]
    (grad,) = torch.autograd.grad(recorded, x)
    assert grad.item() == 2
    assert op(torch.ones(1)).item() == 2


def test_operators_run_the_new_definition() -> None:
    define("operator", 2)
    operator = torch.ops.torchoverride.operator
    exported = torch.export.export(Module(operator), (torch.ones(1),))
    define("operator", 3, override=True)
    assert torch.ops.torchoverride.operator is operator
    assert operator(torch.ones(1)).item() == 3
    assert exported.module()(torch.ones(1)).item() == 3
    with torch.device("meta"):
        assert operator(torch.ones(4)).shape == (4,)


class Module(torch.nn.Module):
    """Calls an operator."""

    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> Any:
        return self.operator(x)


def test_an_operator_that_says_that_it_may_be_recorded_keeps_that() -> None:
    op = define("recordable", 2, allow_cuda_graph=True)
    text = "torchoverride::recordable: override: expected the allow_cuda_graph of the torch oper"
    with pytest.raises(ValueError, match=text):
        define("recordable", 3, override=True)
    with pytest.raises(ValueError, match=text):
        op.add_kernel("torchoverride.unsafe")
    assert op(torch.ones(1)).item() == 2


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"schema": "(Tensor y, float by=1.0) -> Tensor"}, "parameters and results"),
        ({"schema": "(Tensor x, float by=1.0) -> (Tensor a, Tensor b)"}, "parameters and results"),
        ({"vmap": "broadcast"}, "kind of vmap"),
        ({"has_side_effect": True}, "has_side_effect"),
        ({"recompute": False}, "recompute"),
    ],
)
def test_a_definition_that_needs_another_operator_is_refused(options: Any, what: str) -> None:
    op = define("other", 2)
    with pytest.raises(
        ValueError, match=rf"torchoverride::other: override: expected the {what} of the torch oper"
    ) as caught:
        define("other", 3, override=True, **options)
    hold, got = re.search(r"graphs hold, (.*), got (.*); give", str(caught.value)).groups()
    assert hold != got
    x = torch.ones(1)
    assert op(x).item() == torch.compile(calling(op), fullgraph=True)(x).item() == 2

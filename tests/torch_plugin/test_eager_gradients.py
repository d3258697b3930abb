# SPDX-License-Identifier: Apache-2.0
"""Eager calls that record a gradient without the dispatcher, and their rules."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

import graphffi
from tests import differentiable_ops as ops


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(shape, requires_grad=True)


def copy(*arguments: Any) -> None:
    torch.from_dlpack(arguments[-1]).copy_(torch.from_dlpack(arguments[0]))


def define(name: str, parameters: str = "Tensor x") -> Any:
    return graphffi.define_op(
        f"eagergrad::{name}",
        schema=f"({parameters}) -> Tensor",
        kernel=copy,
        infer=lambda x, *_: graphffi.like(x),
    )


def test_rules_decide_on_sizes_and_attributes_of_each_call() -> None:
    op = define("deciding", "Tensor x, float factor, str mode")

    def backward(saved: Any, grad: Any) -> Any:
        if saved.mode == "none":
            return None
        return grad * (saved.factor if grad.shape[0] > 2 else -saved.factor)

    op.register_vjp(backward)
    for rows, factor, mode, expected in (
        (3, 2.0, "some", 2.0),
        (2, 2.0, "some", -2.0),
        (3, 5.0, "some", 5.0),
        (3, 5.0, "none", 0.0),
        (3, 5.0, "some", 5.0),
    ):
        x = leaf(rows)
        (op(x, factor, mode) + x * 0).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [expected] * rows


def test_attributes_of_rules_have_the_types_of_the_definition() -> None:
    @graphffi.op("eagergrad::typed", kernel="eagergrad.typed")
    def op(
        x: graphffi.Tensor, kind: graphffi.dtype, kinds: list[graphffi.dtype], sizes: list[int]
    ) -> graphffi.Tensor:
        return graphffi.like(x)

    graphffi.register_global_func("eagergrad.typed", lambda *a: copy(a[0], a[-1]), override=True)
    seen: list[Any] = []

    def backward(saved: Any, grad: Any) -> Any:
        seen.append(saved)
        return grad

    op.register_vjp(backward)
    op(leaf(2), torch.float16, ["int8"], [1, 2]).sum().backward()
    assert isinstance(seen[0].kind, graphffi.dtype)
    assert (seen[0].kind, seen[0].kinds, seen[0].sizes) == ("float16", ["int8"], [1, 2])


def test_cotangents_are_row_major() -> None:
    strides: list[Any] = []
    op = define("strided")
    op.register_vjp(lambda saved, grad: strides.append(grad.stride()) or grad)
    x = leaf(2, 3)
    op(x).sum().backward()  # whose gradient is expanded
    torch.autograd.grad(op(x), x, torch.ones(3, 2).T)
    assert strides == [(3, 1), (3, 1)]


class Pair(NamedTuple):
    """What a rule may return."""

    x: Any
    y: Any


@pytest.mark.parametrize(
    "give",
    [
        lambda grad: (grad, None),
        lambda grad: [grad, None],
        lambda grad: Pair(grad, None),
        lambda grad: (grad.double(), None),
        lambda grad: (torch.nn.Parameter(grad), None),
        lambda grad: (grad[:1].expand(2, 3), None),
        lambda grad: (grad.T.contiguous().T, None),
    ],
)
def test_rules_may_return_gradients_in_many_forms(give: Any) -> None:
    op = define("forms" + str(give.__code__.co_firstlineno), "Tensor x, Tensor y")
    op.register_vjp(lambda saved, grad: give(grad))
    x, y = leaf(2, 3), leaf(2, 3)
    op(x, y).sum().backward()
    assert x.grad is not None
    assert x.grad.equal(torch.ones(2, 3))
    assert x.grad.dtype == torch.float32
    assert y.grad is None


def test_a_rule_counts_for_the_calls_that_follow_it() -> None:
    op, x = define("late"), leaf(3)
    before = op(x)
    op.register_vjp(lambda saved, grad: grad * 2)
    op(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2, 2]
    with pytest.raises(NotImplementedError, match="eagergrad::late: backward: expected a gradient"):
        before.sum().backward()


def test_kernels_of_recorded_calls_record_nothing() -> None:
    weight, results = leaf(3), []

    def kernel(x: Any, out: Any) -> None:
        results.append(weight * 2)
        copy(x, out)

    op = graphffi.define_op(
        "eagergrad::recording", schema="(Tensor x) -> Tensor", kernel=kernel, infer=graphffi.like
    )
    op.register_vjp(lambda saved, grad: grad)
    assert op(leaf(3)).requires_grad
    assert not results[0].requires_grad


def test_hooks_see_the_gradients_of_recorded_calls() -> None:
    seen: list[Any] = []
    x, y = leaf(3), leaf(3)
    product = ops.mul(x, y)
    product.register_hook(lambda grad: grad * 2)
    product.grad_fn.register_prehook(lambda grads: seen.append(grads[0].tolist()))
    product.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    product.sum().backward()
    assert seen == [[2, 2, 2], 2]
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2, 2]


def test_tangents_that_a_view_has_of_its_base_are_refused() -> None:
    import torch.autograd.forward_ad as forward

    base = torch.zeros(4)
    view = base[:2][:1]
    assert ops.mul(view, view).tolist() == [0]
    with forward.dual_level():
        base.copy_(forward.make_dual(torch.ones(4), torch.ones(4)))
        for tensor in (base, view):
            with pytest.raises(NotImplementedError, match="gradtest::mul: jvp: expected a forward"):
                ops.mul(tensor, tensor)
    assert ops.mul(view, view).tolist() == [1]


def test_gradients_in_one_memory_are_apart_where_they_accumulate() -> None:
    def add(x: Any, y: Any, out: Any) -> None:
        torch.from_dlpack(out).copy_(torch.from_dlpack(x).reshape(-1) + torch.from_dlpack(y))

    op = graphffi.define_op(
        "eagergrad::flat_add",
        schema="(Tensor x, Tensor y) -> Tensor",
        kernel=add,
        infer=lambda x, y: y,
    )
    op.register_vjp(lambda saved, g: (g.reshape(saved.x.shape), g), save="x")
    x, y = torch.zeros(2, 2, requires_grad=True), torch.zeros(4, requires_grad=True)
    for call in (op, torch.ops.eagergrad.flat_add):
        (call(x, y) * torch.arange(4.0)).sum().backward()
    assert x.grad.tolist() == [[0, 2], [4, 6]]  # type: ignore[union-attr]
    assert y.grad.tolist() == [0, 2, 4, 6]  # type: ignore[union-attr]

# SPDX-License-Identifier: Apache-2.0
"""torch.vmap by the rules of ops."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import graphffi
from tests import differentiable_ops as ops

vmap = torch.func.vmap
X = torch.arange(12.0).reshape(4, 3)
Y = X.flip(0) - 5


@pytest.mark.parametrize(
    ("x", "y", "in_dims", "out_dims"),
    [
        (X, Y, 0, 0),
        (X, Y[0], (0, None), 0),
        (X[0], Y, (None, 0), 0),
        (X.T, Y, (1, 0), 0),
        (X, Y.T, (0, 1), 1),
        (X.T.contiguous(), Y.T.contiguous(), 1, 1),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_broadcast(x: Any, y: Any, in_dims: Any, out_dims: int, compiled: bool) -> None:
    f = vmap(ops.mul, in_dims, out_dims)
    if compiled:
        f = torch.compile(f, fullgraph=True, backend="aot_eager")
    expected = vmap(ops.reference_mul, in_dims, out_dims)(x, y)
    torch.testing.assert_close(f(x, y), expected)


def test_sequential_with_lists_and_absent_operands() -> None:
    def f(x: Any, y: Any) -> Any:
        return ops.combine([x, y], None, [1.0, 2.0])

    torch.testing.assert_close(vmap(f)(X, Y), X + 2 * Y)
    torch.testing.assert_close(vmap(f, (0, None))(X, Y[1]), X + 2 * Y[1])
    biased = vmap(lambda x, b: ops.combine([x, x], b, [1.0, 2.0]), (1, 1), 1)
    torch.testing.assert_close(biased(X, Y), 3 * X + Y)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("op", [ops.scale_rows, ops.scale_rows_with_dims], ids=["own", "dims"])
def test_one_call_for_a_shared_weight_or_a_loop(compiled: bool, op: Any) -> None:
    def check(in_dims: Any, *args: Any) -> None:
        f = vmap(lambda x, w: tuple(op(x, w)), in_dims)
        if compiled:
            f = torch.compile(f, fullgraph=True, backend="aot_eager")
        expected = vmap(ops.reference_scale_rows, in_dims)(*args)
        torch.testing.assert_close(f(*args), expected)

    batch = torch.stack([X, Y])
    check((0, None), batch, X[0])
    check((1, None), batch, X[1])
    check((0, 0), batch, X[:2])
    check((None, 0), X, X[:2])


def test_nested() -> None:
    batch = torch.stack([X, Y])
    torch.testing.assert_close(vmap(vmap(ops.mul))(batch, batch), batch * batch)
    outer = vmap(lambda a: vmap(lambda b: ops.mul(a, b))(batch[0]))(batch[1])
    torch.testing.assert_close(outer, batch[1][:, None] * batch[0][None])
    torch.testing.assert_close(
        vmap(vmap(lambda x: ops.combine([x, x], None, [1.0, 2.0])))(batch), 3 * batch
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_updates_arrive_in_the_batch(compiled: bool) -> None:
    total = torch.zeros(4, 3)
    f = vmap(ops.accumulate)
    if compiled:
        f = torch.compile(f, fullgraph=True, backend="aot_eager")
    result = f(total, X)
    torch.testing.assert_close(total, X)
    torch.testing.assert_close(result, X)


def test_an_operand_to_update_may_be_absent() -> None:
    op = graphffi.define_op(
        "gradtest::maybe_accumulate",
        schema="(Tensor(a!)? total, Tensor x) -> Tensor",
        kernel=ops.mul.definition.kernels[0].reference,
        plan="x, x, out",
        infer=lambda total, x: graphffi.like(x),
        vmap="sequential",
    )
    torch.testing.assert_close(vmap(lambda x: op(None, x)[0])(X), X * X)


def test_updating_one_tensor_for_a_whole_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="gradtest::accumulate: vmap: operand 'total': expected a"):
        vmap(ops.accumulate, (None, 0))(torch.zeros(3), X)


def test_gradients_in_a_batch_and_of_a_batch() -> None:
    def f(x: Any, y: Any) -> Any:
        return ops.mul(ops.mul(x, y), x).sum()

    torch.testing.assert_close(vmap(torch.func.grad(f))(X, Y), 2 * X * Y)
    torch.testing.assert_close(torch.func.grad(lambda x: vmap(f)(x, Y).sum())(X), 2 * X * Y)
    x = X.clone().requires_grad_()
    vmap(ops.mul)(x, Y).sum().backward()
    torch.testing.assert_close(x.grad, Y)
    batch = torch.stack([X, Y])

    def norm(scale: Any, x: Any, w: Any) -> Any:
        return (scale(x, w)[0] ** 2).sum()

    for in_dims, w in (((0, None), X[1]), ((0, 0), X[:2])):
        got, expected = (
            vmap(torch.func.grad(lambda x, w, s=s: norm(s, x, w), (0, 1)), in_dims)(batch, w)
            for s in (ops.scale_rows, ops.reference_scale_rows)
        )
        torch.testing.assert_close(got, expected)


def test_gradients_of_complex_numbers_in_a_batch() -> None:
    x, y = torch.complex(X, Y), torch.complex(Y, X)

    def loss(mul: Any, x: Any, y: Any) -> Any:
        return mul(x.conj(), y).real.square().sum()

    got, expected = (
        vmap(torch.func.grad(lambda x, y, mul=mul: loss(mul, x, y), (0, 1)))(x, y)
        for mul in (ops.mul_complex, torch.mul)
    )
    torch.testing.assert_close(got, expected)


def test_without_a_rule_it_says_what_to_do() -> None:
    message = "gradtest::no_rules: vmap: expected a batching rule, got none; define the op with"
    with pytest.raises(NotImplementedError, match=message):
        vmap(ops.no_rules)(X, Y)
    with pytest.raises(NotImplementedError, match=message):
        vmap(torch.ops.gradtest.no_rules.out)(X, Y, out=torch.empty(4, 3))
    with pytest.raises(NotImplementedError, match=r"rules.none: vmap: expected a batching rule"):
        vmap(lambda x: graphffi.call_tvm_ffi("rules.none", x, out=graphffi.like(x)))(X)


def test_an_empty_batch() -> None:
    empty = torch.zeros(0, 3)
    assert vmap(ops.mul)(empty, empty).shape == (0, 3)
    with pytest.raises(ValueError, match="gradtest::combine: vmap: expected at least one element"):
        vmap(lambda x: ops.combine([x], None, [1.0]))(empty)


def test_a_wrong_rule_is_reported() -> None:
    op = ops.with_wrong_batches("gradtest::bad_vmap")
    for size, got in ((4, "[3]"), (1, "[1]")):
        text = f"result 'y': expected [{size}, 3] with the batch in front, got {got}"
        with pytest.raises(ValueError, match=re.escape(text)):
            vmap(op)(X[:size])
    with pytest.raises(TypeError, match="result 'y': expected float32, got bool"):
        vmap(op)(X[:2])
    with pytest.raises(TypeError, match="result 'y': expected a tensor, got int 3"):
        vmap(op)(X[:3])


def test_attributes_and_updates_in_a_loop() -> None:
    seen: list[Any] = []

    def rule(size: int, batched: Any, *args: Any) -> Any:
        seen.append((size, vars(batched), args[2:]))
        return NotImplemented

    op = graphffi.define_op(
        "gradtest::looped",
        schema="(Tensor(a!) total, Tensor x, dtype t='float32', Device d='cpu') -> ()",
        kernel=ops.accumulate.definition.kernels[0].reference,
        plan="total, x",
        vmap=rule,
    )
    total = torch.zeros(4, 3)
    torch.testing.assert_close(vmap(op, (0, 1))(torch.zeros(4, 3), X.T), X)
    vmap(op, (0, None))(total, X[1])
    torch.testing.assert_close(total, X[1].expand(4, 3))
    flags, attributes = (
        {"total": True, "x": True},
        (graphffi.dtype("float32"), graphffi.Device("cpu")),
    )
    assert seen == [(4, flags, attributes), (4, flags | {"x": False}, attributes)]
    assert [type(value) for value in seen[0][2]] == [graphffi.dtype, graphffi.Device]

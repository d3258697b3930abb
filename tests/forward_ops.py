# SPDX-License-Identifier: Apache-2.0
"""Ops with rules for both modes of differentiation, for the tests of both plugins.

The kernels, and the references `reference_<name>`, are those of `differentiable_ops`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import graphffi
from graphffi import Tensor
from tests import differentiable_ops as ops
from tests.differentiable_ops import reference_combine as reference_combine
from tests.differentiable_ops import reference_mul as reference_mul
from tests.differentiable_ops import reference_scale_rows as reference_scale_rows


def _kernel(op: graphffi.Op) -> str:
    return op.definition.kernels[0].reference


@graphffi.op("forward::mul", kernel=_kernel(ops.mul), vmap="broadcast")
def mul(x: Tensor, y: Tensor) -> Tensor:
    """x * y, with both rules, made of itself."""
    return graphffi.like(x)


mul.register_vjp(lambda saved, grad: (mul(grad, saved.y), mul(grad, saved.x)), save=("x", "y"))
mul.register_jvp(
    lambda saved, x, y: mul(x, saved.y) + mul(saved.x, y),
    save=("x", "y"),
)


class Scaled(NamedTuple):
    """Results of `scale_rows`."""

    out: Tensor
    inverse: Tensor


def _batch_scale_rows(size: Any, batched: Any, x: Any, weight: Any, eps: float) -> Any:
    return NotImplemented if batched.weight else scale_rows(x, weight, eps)


@graphffi.op(
    "forward::scale_rows",
    kernel=_kernel(ops.scale_rows),
    vmap=_batch_scale_rows,
    gradient="reference",
)
def scale_rows(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Scaled:
    """Root-mean-square norm, and the factors that it found: rules are those of its reference."""
    return Scaled(graphffi.like(x), graphffi.like(x, shape=x.shape[:-1]))


@scale_rows.set_reference
def _scale_rows(xp: Any, x: Any, weight: Any, eps: float) -> Any:
    inverse = (xp.mean(x * x, axis=-1) + eps) ** -0.5
    return x * inverse[..., None] * weight, inverse


@graphffi.op("forward::combine", kernel=_kernel(ops.combine), vmap="sequential")
def combine(xs: list[Tensor], bias: Tensor | None, factors: list[float]) -> Tensor:
    """The sum of factors[i] * xs[i], plus a bias: a list and an operand that may be absent."""
    return graphffi.like(xs[0])


combine.register_vjp(
    lambda saved, grad: (
        [grad * f for f in saved.factors],
        None if saved.bias is None else grad,
    ),
    save=("bias",),
)


def _combine_forward(saved: Any, xs: list[Any], bias: Any) -> Any:
    total = sum(x * f for x, f in zip(xs, saved.factors, strict=True))
    return total if bias is None else total + bias


combine.register_jvp(_combine_forward)


class Largest(NamedTuple):
    """Results of `largest`."""

    value: Tensor
    position: Tensor


@graphffi.op(
    "forward::largest",
    kernel=_kernel(ops.largest),
    plan="x, value, position",
    gradient="reference",
    vmap="sequential",
)
def largest(x: Tensor) -> Largest:
    """The largest element of each row, and its position, which has no gradient."""
    shape = x.shape[:-1]
    return Largest(graphffi.like(x, shape=shape), graphffi.empty(shape, "int32"))


@largest.set_reference
def _largest(xp: Any, x: Any) -> Any:
    return xp.max(x, axis=-1), xp.astype(xp.argmax(x, axis=-1), xp.int32)


def use_all(prefix: str) -> Any:
    """The sum of squares of every kind of result of every kind of operand."""
    own = globals()
    mul, scale, combine = (own[prefix + name] for name in ("mul", "scale_rows", "combine"))

    def f(x: Any, y: Any, weight: Any) -> Any:
        scaled, inverse = scale(mul(x, y), weight, 1e-3)
        results = [combine([scaled, x], y, [0.5, 2.0]), combine([x * 2], None, [3.0]), inverse]
        return sum((r * r).sum() for r in results)

    return f

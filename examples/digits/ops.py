# SPDX-License-Identifier: Apache-2.0
"""Norm, activation and attention: C++ kernels with gradients, defined once for PyTorch and JAX.

The kernels take row-major float32 on the CPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import graphffi
from graphffi import Tensor

_kernels = graphffi.load_module(
    graphffi.cpp.build(
        "digits",
        sources=[Path(__file__).parent / "kernels.cc"],
        extra_cflags=("-O3", "-march=native", "-ffast-math"),
    )
)


def _expect_shape(name: str, operand: Any, *shape: Any) -> None:
    graphffi.check(
        len(operand.shape) == len(shape)
        and all(size == wanted for size, wanted in zip(operand.shape, shape, strict=True)),
        f"operand '{name}': expected shape {list(shape)}, got {list(operand.shape)}",
    )


class Normed(NamedTuple):
    """Results of `rms_norm`."""

    out: Tensor
    inverse: Tensor


class NormGradients(NamedTuple):
    """Results of `rms_norm_backward`."""

    grad_x: Tensor
    grad_weight: Tensor


def _batch_rms_norm(size: Any, batched: Any, x: Any, weight: Any, eps: float) -> Any:
    # Rows may have any number of leading dimensions, but there is one weight for all.
    return NotImplemented if batched.weight else rms_norm(x, weight, eps)


@graphffi.op(
    "digits::rms_norm",
    kernel=_kernels.rms_norm,
    plan="x, weight, out, inverse, eps",
    vmap=_batch_rms_norm,
    gradient="reference",
)
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Normed:
    """Root-mean-square norm over the last dimension, times `weight`.

    Args:
        x: [..., width].
        weight: [width].
        eps: Added to the mean square.

    Returns:
        Like `x`; and [...], one over the root mean squares.
    """
    graphffi.check(
        len(weight.shape) == 1 and len(x.shape) > 0 and x.shape[-1] == weight.shape[0],
        f"operand 'weight': expected the size of the last dimension of {x.shape}, got "
        f"{weight.shape}",
    )
    return Normed(graphffi.like(x), graphffi.like(x, shape=x.shape[:-1]))


@rms_norm.set_reference
def _rms_norm(xp: Any, x: Any, weight: Any, eps: float) -> Any:
    mean_square = xp.sum(x * x, axis=-1) / max(x.shape[-1], 1)
    inverse = (mean_square + eps) ** -0.5
    return x * inverse[..., None] * weight, inverse


@graphffi.op(
    "digits::rms_norm_backward",
    kernel=_kernels.rms_norm_backward,
    vmap="sequential",
    gradient="reference",
)
def rms_norm_backward(
    grad: Tensor, grad_inverse: Tensor, x: Tensor, weight: Tensor, inverse: Tensor
) -> NormGradients:
    """The gradients of `rms_norm`, that of the weight summed over all rows."""
    graphffi.check(len(x.shape) > 0, "operand 'x': expected at least 1 dimension, got none")
    _expect_shape("grad", grad, *x.shape)
    _expect_shape("grad_inverse", grad_inverse, *x.shape[:-1])
    _expect_shape("weight", weight, x.shape[-1])
    _expect_shape("inverse", inverse, *x.shape[:-1])
    return NormGradients(graphffi.like(x), graphffi.like(weight))


@rms_norm_backward.set_reference
def _rms_norm_backward(
    xp: Any, grad: Any, grad_inverse: Any, x: Any, weight: Any, inverse: Any
) -> Any:
    inverse = inverse[..., None]
    along_x = xp.sum(grad * weight * x, axis=-1, keepdims=True) + grad_inverse[..., None]
    grad_x = inverse * (grad * weight - x * along_x * inverse * inverse / x.shape[-1])
    return grad_x, xp.sum(grad * x * inverse, axis=tuple(range(x.ndim - 1)))


rms_norm.register_vjp(
    lambda saved, grad, grad_inverse: rms_norm_backward(
        grad, grad_inverse, saved.x, saved.weight, saved.inverse
    ),
    save=("x", "weight", "inverse"),
)


@graphffi.op("digits::swish", kernel=_kernels.swish, vmap="broadcast", gradient="reference")
def swish(x: Tensor) -> Tensor:
    """Multiply each element of x with its sigmoid."""
    return graphffi.like(x)


swish.set_reference(lambda xp, x: x / (1 + xp.exp(-x)))


@graphffi.op(
    "digits::swish_backward",
    kernel=_kernels.swish_backward,
    vmap="broadcast",
    gradient="reference",
)
def swish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of `swish`."""
    _expect_shape("grad", grad, *x.shape)
    return graphffi.like(x)


@swish_backward.set_reference
def _swish_backward(xp: Any, grad: Any, x: Any) -> Any:
    sigmoid = 1 / (1 + xp.exp(-x))
    return grad * sigmoid * (1 + x * (1 - sigmoid))


swish.register_vjp(lambda saved, grad: swish_backward(grad, saved.x), save=("x",))


def _sizes_of_qkv(qkv: Any) -> tuple[Any, Any, Any, Any]:
    """Batch dimensions, and the numbers of tokens, heads and elements of a head."""
    graphffi.check(
        len(qkv.shape) >= 4 and qkv.shape[-3] == 3,
        f"operand 'qkv': expected [..., tokens, 3, heads, head_dim], got {qkv.shape}",
    )
    *batch, tokens, _, heads, head_dim = qkv.shape
    return batch, tokens, heads, head_dim


class Attended(NamedTuple):
    """Results of `attention`."""

    out: Tensor
    logsumexp: Tensor


@graphffi.op("digits::attention", kernel=_kernels.attention, vmap="broadcast", gradient="reference")
def attention(qkv: Tensor, scale: float) -> Attended:
    """Attention of every token to every token.

    Args:
        qkv: [..., tokens, 3, heads, head_dim]: queries, keys and values.
        scale: Of the scores, before the softmax.

    Returns:
        [..., tokens, heads, head_dim]; and [..., heads, tokens], from which the backward kernel
        computes the probabilities again.
    """
    batch, tokens, heads, head_dim = _sizes_of_qkv(qkv)
    return Attended(
        graphffi.like(qkv, shape=(*batch, tokens, heads, head_dim)),
        graphffi.like(qkv, shape=(*batch, heads, tokens)),
    )


def _heads_first(xp: Any, qkv: Any) -> Any:
    """Queries, keys and values: [..., heads, tokens, head_dim]."""
    return (xp.moveaxis(qkv[..., i, :, :], -3, -2) for i in range(3))


@attention.set_reference
def _attention(xp: Any, qkv: Any, scale: float) -> Any:
    if qkv.shape[-4] == 0:  # of no scores there is no maximum
        q = qkv[..., 0, :, :]
        return q, xp.sum(xp.moveaxis(q, -3, -2), axis=-1)
    q, k, v = _heads_first(xp, qkv)
    scores = scale * (q @ xp.matrix_transpose(k))
    most = xp.max(scores, axis=-1, keepdims=True)
    weights = xp.exp(scores - most)
    total = xp.sum(weights, axis=-1, keepdims=True)
    out = xp.moveaxis((weights / total) @ v, -3, -2)
    return out, (most + xp.log(total))[..., 0]


@graphffi.op(
    "digits::attention_backward",
    kernel=_kernels.attention_backward,
    vmap="broadcast",
    gradient="reference",
)
def attention_backward(
    grad: Tensor,
    grad_logsumexp: Tensor,
    qkv: Tensor,
    attended: Tensor,
    logsumexp: Tensor,
    scale: float,
) -> Tensor:
    """The gradient of `attention` with respect to `qkv`."""
    batch, tokens, heads, head_dim = _sizes_of_qkv(qkv)
    for name, operand in (("grad", grad), ("attended", attended)):
        _expect_shape(name, operand, *batch, tokens, heads, head_dim)
    for name, operand in (("grad_logsumexp", grad_logsumexp), ("logsumexp", logsumexp)):
        _expect_shape(name, operand, *batch, heads, tokens)
    return graphffi.like(qkv)


@attention_backward.set_reference
def _attention_backward(
    xp: Any, grad: Any, grad_logsumexp: Any, qkv: Any, attended: Any, logsumexp: Any, scale: float
) -> Any:
    q, k, v = _heads_first(xp, qkv)
    grad, attended = (xp.moveaxis(x, -3, -2) for x in (grad, attended))
    weights = xp.exp(scale * (q @ xp.matrix_transpose(k)) - logsumexp[..., None])
    mean = xp.sum(grad * attended, axis=-1) - grad_logsumexp
    grad_scores = scale * weights * (grad @ xp.matrix_transpose(v) - mean[..., None])
    transposed = xp.matrix_transpose(grad_scores)
    parts = (grad_scores @ k, transposed @ q, xp.matrix_transpose(weights) @ grad)
    return xp.stack([xp.moveaxis(part, -3, -2) for part in parts], axis=-3)


attention.register_vjp(
    lambda saved, grad, grad_logsumexp: attention_backward(
        grad, grad_logsumexp, saved.qkv, saved.out, saved.logsumexp, saved.scale
    ),
    save=("qkv", "out", "logsumexp"),
)

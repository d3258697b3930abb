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


@graphffi.op("digits::rms_norm_backward", kernel=_kernels.rms_norm_backward, vmap="sequential")
def rms_norm_backward(
    grad: Tensor, grad_inverse: Tensor, x: Tensor, weight: Tensor, inverse: Tensor
) -> NormGradients:
    """The gradients of `rms_norm`, that of the weight summed over all rows."""
    return NormGradients(graphffi.like(x), graphffi.like(weight))


rms_norm.register_vjp(
    lambda saved, grad, grad_inverse: rms_norm_backward(
        grad, grad_inverse, saved.x, saved.weight, saved.inverse
    ),
    save=("x", "weight", "inverse"),
)


@graphffi.op("digits::swish", kernel=_kernels.swish, vmap="broadcast")
def swish(x: Tensor) -> Tensor:
    """Multiply each element of x with its sigmoid."""
    return graphffi.like(x)


@graphffi.op("digits::swish_backward", kernel=_kernels.swish_backward, vmap="broadcast")
def swish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of `swish`."""
    return graphffi.like(x)


swish.register_vjp(lambda saved, grad: swish_backward(grad, saved.x), save=("x",))


class Attended(NamedTuple):
    """Results of `attention`."""

    out: Tensor
    logsumexp: Tensor


@graphffi.op("digits::attention", kernel=_kernels.attention, vmap="broadcast")
def attention(qkv: Tensor, scale: float) -> Attended:
    """Attention of every token to every token.

    Args:
        qkv: [..., tokens, 3, heads, head_dim]: queries, keys and values.
        scale: Of the scores, before the softmax.

    Returns:
        [..., tokens, heads, head_dim]; and [..., heads, tokens], from which the backward kernel
        computes the probabilities again.
    """
    graphffi.check(
        len(qkv.shape) >= 4 and qkv.shape[-3] == 3,
        f"operand 'qkv': expected [..., tokens, 3, heads, head_dim], got {qkv.shape}",
    )
    *batch, tokens, _, heads, head_dim = qkv.shape
    return Attended(
        graphffi.like(qkv, shape=(*batch, tokens, heads, head_dim)),
        graphffi.like(qkv, shape=(*batch, heads, tokens)),
    )


@graphffi.op("digits::attention_backward", kernel=_kernels.attention_backward, vmap="broadcast")
def attention_backward(
    grad: Tensor,
    grad_logsumexp: Tensor,
    qkv: Tensor,
    attended: Tensor,
    logsumexp: Tensor,
    scale: float,
) -> Tensor:
    """The gradient of `attention` with respect to `qkv`."""
    return graphffi.like(qkv)


attention.register_vjp(
    lambda saved, grad, grad_logsumexp: attention_backward(
        grad, grad_logsumexp, saved.qkv, saved.out, saved.logsumexp, saved.scale
    ),
    save=("qkv", "out", "logsumexp"),
)

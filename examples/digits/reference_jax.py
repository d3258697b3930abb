# SPDX-License-Identifier: Apache-2.0
"""The operations of `ops` in plain JAX; `jax.grad` differentiates them."""

from __future__ import annotations

import jax


def rms_norm(x: jax.Array, weight: jax.Array, eps: float = 1e-5) -> tuple[jax.Array, jax.Array]:
    """See `ops.rms_norm`."""
    inverse = jax.lax.rsqrt((x * x).mean(-1) + eps)
    return x * inverse[..., None] * weight, inverse


def swish(x: jax.Array) -> jax.Array:
    """See `ops.swish`."""
    return jax.nn.silu(x)


def attention(qkv: jax.Array, scale: float) -> tuple[jax.Array, jax.Array]:
    """See `ops.attention`."""
    q, k, v = (qkv[..., i, :, :].swapaxes(-3, -2) for i in range(3))
    scores = scale * q @ k.mT
    out = jax.nn.softmax(scores, axis=-1) @ v
    return out.swapaxes(-3, -2), jax.nn.logsumexp(scores, axis=-1)

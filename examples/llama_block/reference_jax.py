# SPDX-License-Identifier: Apache-2.0
"""The operations of `ops.py` in plain JAX: what the kernels are compared with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def rms_norm(x: Array, weight: Array, eps: float = 1e-5) -> Array:
    """Root-mean-square norm; see `ops.rms_norm`."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + eps)
    return (wide * scale * weight.astype(jnp.float32)).astype(x.dtype)


def rope(q: Array, k: Array, cos: Array, sin: Array, positions: Array) -> tuple[Array, Array]:
    """Rotary position embedding; see `ops.rope`."""
    c, s = cos[positions][:, None, :], sin[positions][:, None, :]

    def rotate(x: Array) -> Array:
        a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        return jnp.concatenate((a * c - b * s, b * c + a * s), axis=-1).astype(x.dtype)

    return rotate(q), rotate(k)


def silu_and_mul(x: Array) -> Array:
    """The gate of a SwiGLU; see `ops.silu_and_mul`."""
    gate, up = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return (jax.nn.silu(gate) * up).astype(x.dtype)


def kv_cache_append(
    cache_k: Array, cache_v: Array, k: Array, v: Array, positions: Array
) -> tuple[Array, Array]:
    """Write new keys and values into the caches; see `ops.kv_cache_append`.

    Needs consecutive positions.
    """

    def append(cache: Array, x: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(cache, x.swapaxes(1, 2), positions[0], axis=2)

    return append(cache_k, k), append(cache_v, v)


def decode_attention(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    length: Array,
    mask: Array | None = None,
    scale: float = 1.0,
) -> Array:
    """Attention over the caches; see `ops.decode_attention`."""
    batch, tokens, heads, head_dim = q.shape
    kv_heads, capacity = k_cache.shape[1:3]
    # XLA's CPU backend has no product of bfloat16 with a float32 result.
    keys, values = k_cache.astype(jnp.float32), v_cache.astype(jnp.float32)
    grouped = q.reshape(batch, tokens, kv_heads, heads // kv_heads, head_dim).astype(jnp.float32)
    scores = jnp.einsum("btkgd,bkcd->bkgtc", grouped, keys)
    seen = (jnp.arange(capacity) < length)[None, :]
    if mask is not None:
        seen = seen & mask
    weights = jax.nn.softmax(jnp.where(seen, scores * scale, -jnp.inf), axis=-1)
    out = jnp.einsum("bkgtc,bkcd->btkgd", weights, values)
    return out.reshape(q.shape).astype(q.dtype)

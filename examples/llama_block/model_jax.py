# SPDX-License-Identifier: Apache-2.0
"""The decoder in JAX: `operations` is `ops` (C++ kernels) or `reference_jax`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .config import Config, Weights

# The keys and values of each layer: [batch, kv_heads, capacity, head_dim].
Caches = list[tuple[Array, Array]]
Step = Callable[[Array, Array, Caches], tuple[Array, Array, Array, Caches]]


def load_weights(weights: Weights, dtype: Any) -> Weights:
    """Copy NumPy weights into arrays of `dtype`; the tables stay float32."""
    loaded: Weights = jax.tree.map(lambda value: jnp.asarray(value, dtype), weights)
    loaded["cos"], loaded["sin"] = jnp.asarray(weights["cos"]), jnp.asarray(weights["sin"])
    return loaded


def empty_caches(config: Config, dtype: Any, *, batch: int = 1) -> Caches:
    """Make the caches of all layers, filled with zeros."""
    shape = (batch, config.kv_heads, config.capacity, config.head_dim)
    return [(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)) for _ in range(config.layers)]


def forward(
    config: Config,
    operations: ModuleType,
    weights: Weights,
    tokens: Array,
    positions: Array,
    caches: Caches,
) -> tuple[Array, Caches]:
    """Run the decoder on new tokens and append them to the caches.

    Args:
        config: The dimensions.
        operations: The module that provides the operations of a layer.
        weights: As `load_weights` returns them.
        tokens: int32[batch, tokens].
        positions: int32[tokens], consecutive; tokens before the first of them are in the caches.
        caches: Of every layer.

    Returns:
        Logits, float32[batch, tokens, vocabulary], and the caches with the new tokens.
    """
    batch, count = tokens.shape
    width, q_width = config.head_dim, config.heads * config.head_dim
    kv_width = config.kv_heads * config.head_dim
    length = positions[-1:] + 1
    mask = None
    if count > 1:  # one token sees everything before it
        mask = jnp.arange(config.capacity)[None, :] <= positions[:, None]
    x = weights["embedding"][tokens]
    updated: Caches = []
    for layer, (cache_k, cache_v) in zip(weights["layers"], caches, strict=True):
        normed = operations.rms_norm(x, layer["attention_norm"], eps=config.eps)
        q, k, v = jnp.split(normed @ layer["qkv"], (q_width, q_width + kv_width), axis=-1)
        k = k.reshape(batch, count, config.kv_heads, width)
        v = v.reshape(batch, count, config.kv_heads, width)
        q, k = operations.rope(
            q.reshape(batch, count, config.heads, width),
            k,
            weights["cos"],
            weights["sin"],
            positions,
        )
        keys, values = operations.kv_cache_append(cache_k, cache_v, k, v, positions)
        updated.append((keys, values))
        attended = operations.decode_attention(q, keys, values, length, mask, scale=width**-0.5)
        x = x + attended.reshape(batch, count, q_width) @ layer["attention_out"]
        normed = operations.rms_norm(x, layer["mlp_norm"], eps=config.eps)
        x = x + operations.silu_and_mul(normed @ layer["gate_up"]) @ layer["down"]
    x = operations.rms_norm(x, weights["final_norm"], eps=config.eps)
    return (x @ weights["lm_head"]).astype(jnp.float32), updated


def make_step(config: Config, operations: ModuleType, weights: Weights, *, compiled: bool) -> Step:
    """Build the greedy step.

    It maps `(tokens, positions, caches)` to `(next token, its position, logits, caches)`.
    Compiled, the caches are donated: the kernels update them
    in place.
    """

    def step(
        weights: Weights, tokens: Array, positions: Array, caches: Caches
    ) -> tuple[Array, Array, Array, Caches]:
        logits, caches = forward(config, operations, weights, tokens, positions, caches)
        token = jnp.argmax(logits[:, -1], axis=-1, keepdims=True).astype(tokens.dtype)
        return token, positions[-1:] + 1, logits, caches

    run = jax.jit(step, donate_argnums=3) if compiled else step
    return lambda tokens, positions, caches: run(weights, tokens, positions, caches)


def generate(
    step: Step, prompt: Array, caches: Caches, *, count: int, forced: Array | None = None
) -> tuple[Array, Array]:
    """Prefill the caches with a prompt and decode greedily.

    Args:
        step: From `make_step`.
        prompt: int32[batch, tokens].
        caches: Empty ones; consumed.
        count: Number of decode steps.
        forced: Tokens to feed in these steps instead of the decoded ones, [batch, count or more].

    Returns:
        The decoded tokens, int32[batch, count + 1], and the logits of each position,
        float32[batch, tokens + count, vocabulary].
    """
    token, position, logits, caches = step(prompt, jnp.arange(prompt.shape[1]), caches)
    all_tokens, all_logits = [token], [logits]
    for i in range(count):
        token = token if forced is None else forced[:, i : i + 1]
        token, position, logits, caches = step(token, position, caches)
        all_tokens.append(token)
        all_logits.append(logits)
    return jnp.concatenate(all_tokens, axis=1), jnp.concatenate(all_logits, axis=1)

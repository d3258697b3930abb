# SPDX-License-Identifier: Apache-2.0
"""The decoder in PyTorch: `operations` is `ops` (C++ kernels) or `reference_torch`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .config import Config, LayerWeights, Weights

# The keys and values of each layer: [batch, kv_heads, capacity, head_dim].
Caches = list[tuple[Tensor, Tensor]]
Step = Callable[[Tensor, Tensor, Caches], tuple[Tensor, Tensor, Tensor]]


def load_weights(weights: Weights, dtype: torch.dtype) -> Weights:
    """Copy NumPy weights into tensors of `dtype`; the tables stay float32."""

    def load(value: Any, to: torch.dtype = dtype) -> Tensor:
        return torch.from_numpy(value).to(to)

    layers: list[LayerWeights] = [
        {
            "attention_norm": load(layer["attention_norm"]),
            "qkv": load(layer["qkv"]),
            "attention_out": load(layer["attention_out"]),
            "mlp_norm": load(layer["mlp_norm"]),
            "gate_up": load(layer["gate_up"]),
            "down": load(layer["down"]),
        }
        for layer in weights["layers"]
    ]
    return {
        "embedding": load(weights["embedding"]),
        "layers": layers,
        "final_norm": load(weights["final_norm"]),
        "lm_head": load(weights["lm_head"]),
        "cos": load(weights["cos"], torch.float32),
        "sin": load(weights["sin"], torch.float32),
    }


def empty_caches(config: Config, dtype: torch.dtype, *, batch: int = 1) -> Caches:
    """Make the caches of all layers, filled with zeros."""
    shape = (batch, config.kv_heads, config.capacity, config.head_dim)
    return [
        (torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
        for _ in range(config.layers)
    ]


def forward(
    config: Config,
    operations: ModuleType,
    weights: Weights,
    tokens: Tensor,
    positions: Tensor,
    caches: Caches,
) -> Tensor:
    """Run the decoder on new tokens and append them to the caches, in place.

    Args:
        config: The dimensions.
        operations: The module that provides the operations of a layer.
        weights: As `load_weights` returns them.
        tokens: int64[batch, tokens].
        positions: int64[tokens], consecutive; tokens before the first of them are in the caches.
        caches: Of every layer.

    Returns:
        Logits: float32[batch, tokens, vocabulary].
    """
    batch, count = tokens.shape
    width, q_width = config.head_dim, config.heads * config.head_dim
    kv_width = config.kv_heads * config.head_dim
    length = positions[-1:] + 1
    mask = None
    if count > 1:  # one token sees everything before it
        mask = torch.arange(config.capacity, device=tokens.device)[None, :] <= positions[:, None]
    x = weights["embedding"][tokens]
    for layer, (cache_k, cache_v) in zip(weights["layers"], caches, strict=True):
        normed = operations.rms_norm(x, layer["attention_norm"], eps=config.eps)
        q, k, v = (normed @ layer["qkv"]).split((q_width, kv_width, kv_width), dim=-1)
        k = k.view(batch, count, config.kv_heads, width)
        v = v.view(batch, count, config.kv_heads, width)
        q, k = operations.rope(
            q.view(batch, count, config.heads, width), k, weights["cos"], weights["sin"], positions
        )
        keys, values = operations.kv_cache_append(cache_k, cache_v, k, v, positions)
        attended = operations.decode_attention(q, keys, values, length, mask, scale=width**-0.5)
        x = x + attended.reshape(batch, count, q_width) @ layer["attention_out"]
        normed = operations.rms_norm(x, layer["mlp_norm"], eps=config.eps)
        x = x + operations.silu_and_mul(normed @ layer["gate_up"]) @ layer["down"]
    x = operations.rms_norm(x, weights["final_norm"], eps=config.eps)
    logits: Tensor = (x @ weights["lm_head"]).float()
    return logits


def make_step(config: Config, operations: ModuleType, weights: Weights, *, compiled: bool) -> Step:
    """Build the greedy step.

    It maps `(tokens, positions, caches)` to `(next token, its position, logits)`.
    Compiled, one graph serves the prefill of any prompt and a second one all
    decoded tokens.
    """

    def step(tokens: Tensor, positions: Tensor, caches: Caches) -> tuple[Tensor, Tensor, Tensor]:
        logits = forward(config, operations, weights, tokens, positions, caches)
        return logits[:, -1].argmax(-1, keepdim=True), positions[-1:] + 1, logits

    return torch.compile(step, fullgraph=True, dynamic=True) if compiled else step


def generate(
    step: Step, prompt: Tensor, caches: Caches, *, count: int, forced: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Prefill the caches with a prompt and decode greedily.

    Args:
        step: From `make_step`.
        prompt: int64[batch, tokens].
        caches: Empty ones.
        count: Number of decode steps.
        forced: Tokens to feed in these steps instead of the decoded ones, [batch, count or more].

    Returns:
        The decoded tokens, int64[batch, count + 1], and the logits of each position,
        float32[batch, tokens + count, vocabulary].
    """
    token, position, logits = step(prompt, torch.arange(prompt.shape[1]), caches)
    all_tokens, all_logits = [token], [logits]
    for i in range(count):
        token = token if forced is None else forced[:, i : i + 1].contiguous()
        token, position, logits = step(token, position, caches)
        all_tokens.append(token)
        all_logits.append(logits)
    return torch.cat(all_tokens, dim=1), torch.cat(all_logits, dim=1)

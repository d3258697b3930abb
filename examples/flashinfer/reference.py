# SPDX-License-Identifier: Apache-2.0
"""The same model in plain torch, in float32, over whole sequences."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from .config import EPS, HEAD_DIM, HIDDEN, NUM_HEADS, NUM_KV_HEADS, THETA


def logits_of(weights: Any, tokens: Any) -> Any:
    """Logits after each token, float32 ``[batch, length, VOCABULARY]``."""
    batch, length = tokens.shape
    x = weights["embedding"].float()[tokens]
    residual, x = x, _norm(x, weights["norm"])
    for layer in weights["layers"]:
        heads = (NUM_HEADS, NUM_KV_HEADS, NUM_KV_HEADS)
        parts = (x @ layer["qkv"].float()).split([n * HEAD_DIM for n in heads], dim=-1)
        q, k, v = (p.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2) for p in parts)
        k, v = (p.repeat_interleave(NUM_HEADS // NUM_KV_HEADS, dim=1) for p in (_rotated(k), v))
        a = scaled_dot_product_attention(_rotated(q), k, v, is_causal=True)
        residual = residual + a.transpose(1, 2).reshape(batch, length, -1) @ layer["out"].float()
        gate, up = (_norm(residual, layer["norm"]) @ layer["up"].float()).chunk(2, dim=-1)
        residual = residual + (silu(gate) * up) @ layer["down"].float()
        x = _norm(residual, layer["next_norm"])
    return x @ weights["head"].float()


def _norm(x: Any, weight: Any) -> Any:
    return rms_norm(x, (HIDDEN,), weight.float(), EPS)


def _rotated(x: Any) -> Any:
    """Turns pairs of elements i and i + HEAD_DIM / 2 by their positions: ``[..., length, d]``."""
    half = HEAD_DIM // 2
    powers = torch.arange(half, device=x.device) * -2.0 / HEAD_DIM
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * THETA**powers
    one, other = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)

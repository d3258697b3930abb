# SPDX-License-Identifier: Apache-2.0
"""The operations of `ops.py` in plain PyTorch: what the kernels are compared with."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """Root-mean-square norm; see `ops.rms_norm`."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)


def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Rotary position embedding; see `ops.rope`. Returns new tensors."""
    c, s = cos[positions][:, None, :], sin[positions][:, None, :]

    def rotate(x: Tensor) -> Tensor:
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1).to(x.dtype)

    return rotate(q), rotate(k)


def silu_and_mul(x: Tensor) -> Tensor:
    """The gate of a SwiGLU; see `ops.silu_and_mul`."""
    gate, up = x.float().chunk(2, dim=-1)
    return (functional.silu(gate) * up).to(x.dtype)


def kv_cache_append(
    cache_k: Tensor, cache_v: Tensor, k: Tensor, v: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Write new keys and values into the caches, in place; see `ops.kv_cache_append`."""
    cache_k.index_copy_(2, positions, k.transpose(1, 2))
    cache_v.index_copy_(2, positions, v.transpose(1, 2))
    return cache_k, cache_v


def decode_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    length: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Attention over the caches; see `ops.decode_attention`."""
    seen = torch.arange(k_cache.shape[2], device=q.device)[None, :] < length
    if mask is not None:
        seen = seen & mask
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2), k_cache, v_cache, attn_mask=seen, scale=scale, enable_gqa=True
    )
    return out.transpose(1, 2)

# SPDX-License-Identifier: Apache-2.0
"""The operations of `ops` in plain PyTorch; autograd differentiates them."""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """See `ops.rms_norm`."""
    inverse = torch.rsqrt((x * x).mean(-1) + eps)
    return x * inverse[..., None] * weight, inverse


def swish(x: Tensor) -> Tensor:
    """See `ops.swish`."""
    return torch.nn.functional.silu(x)


def attention(qkv: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """See `ops.attention`."""
    q, k, v = (part.swapaxes(-3, -2) for part in qkv.unbind(-3))
    scores = scale * q @ k.mT
    return (scores.softmax(-1) @ v).swapaxes(-3, -2), scores.logsumexp(-1)

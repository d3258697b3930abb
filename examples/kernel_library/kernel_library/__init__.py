# SPDX-License-Identifier: Apache-2.0
"""Kernels as ops of PyTorch, JAX and NumPy."""

from __future__ import annotations

from typing import Any

import graphffi

# The library lies beside this file and describes its ops.
_ops = graphffi.load_ops("libkernel_library.so")

rms_norm: graphffi.Op = _ops.rms_norm


def _rms_norm_vjp(saved: Any, grad: Any) -> tuple[Any, Any]:
    """The gradient by operations that the tensors of all frameworks have."""
    x, weight = saved.x, saved.weight
    scale = ((x * x).mean(-1)[..., None] + saved.eps) ** -0.5
    normed = x * scale
    scaled = grad * weight
    rows = tuple(range(len(x.shape) - 1))
    to_weight = (grad * normed).sum(rows) if rows else grad * normed
    return scale * (scaled - normed * (scaled * normed).mean(-1)[..., None]), to_weight


rms_norm.register_vjp(_rms_norm_vjp, save=("x", "weight"))

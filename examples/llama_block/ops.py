# SPDX-License-Identifier: Apache-2.0
"""The operations of a decoder layer: C++ kernels, defined once for PyTorch, JAX and NumPy.

The kernels run on the CPU, take float32 and bfloat16, and check dtypes, layouts and values
themselves. The rules below check shapes, so that a wrong one is found while a graph is traced.
Positions and lengths are tensors, not numbers: one compiled graph serves all steps of a decode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import graphffi
from graphffi import Tensor

_HERE = Path(__file__).parent
LIBRARY = graphffi.cpp.build(
    "llama_block",
    sources=[_HERE / "kernels.cc"],
    extra_cflags=("-O3", "-march=native", "-fopenmp-simd"),
)
_kernels = graphffi.load_module(LIBRARY)


def _expect_shape(name: str, operand: Any, *shape: Any) -> None:
    sizes = ", ".join(str(size) for size in shape)
    got = ", ".join(str(size) for size in operand.shape)
    graphffi.check(
        len(operand.shape) == len(shape)
        and all(size == wanted for size, wanted in zip(operand.shape, shape, strict=True)),
        f"operand '{name}': expected shape [{sizes}], got {operand.dtype}[{got}]",
    )


def _expect_rank(name: str, operand: Any, rank: int, meaning: str) -> None:
    got = ", ".join(str(size) for size in operand.shape)
    graphffi.check(
        len(operand.shape) == rank,
        f"operand '{name}': expected {meaning}, got {operand.dtype}[{got}]",
    )


@graphffi.op("llama::rms_norm", kernel=_kernels.rms_norm, plan="x, weight, out, eps", strided=True)
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """Root-mean-square norm over the last dimension, times `weight`.

    Args:
        x: [..., hidden].
        weight: [hidden], with the dtype of `x`.
        eps: Added to the mean square.

    Returns:
        Like `x`.
    """
    graphffi.check(
        len(x.shape) > 0, f"operand 'x': expected at least 1 dimensions, got {x.dtype}[]"
    )
    _expect_shape("weight", weight, x.shape[-1])
    return graphffi.like(x)


@graphffi.op("llama::rope", kernel=_kernels.rope, mutates=("q", "k"), strided=True)
def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor) -> None:
    """Rotary position embedding of queries and keys, in place.

    Element i of a head is paired with element i + head_dim / 2.

    Args:
        q: [batch, tokens, heads, head_dim].
        k: [batch, tokens, kv_heads, head_dim], with the dtype of `q`.
        cos: float32[max_positions, head_dim / 2].
        sin: float32[max_positions, head_dim / 2].
        positions: int32 or int64[tokens], each below max_positions.

    Returns:
        The updated `q` and `k`.
    """
    _expect_rank("q", q, 4, "[batch, tokens, heads, head_dim]")
    _expect_rank("k", k, 4, "[batch, tokens, kv_heads, head_dim]")
    _expect_rank("cos", cos, 2, "[max_positions, head_dim / 2]")
    batch, tokens, _, head_dim = q.shape
    _expect_shape("k", k, batch, tokens, k.shape[2], head_dim)
    _expect_shape("cos", cos, cos.shape[0], head_dim // 2)
    _expect_shape("sin", sin, cos.shape[0], head_dim // 2)
    _expect_shape("positions", positions, tokens)


@graphffi.op("llama::silu_and_mul", kernel=_kernels.silu_and_mul, strided=True)
def silu_and_mul(x: Tensor) -> Tensor:
    """The gate of a SwiGLU: `silu(gate) * up`, where `x` is `[gate, up]` along the last dimension.

    Args:
        x: [..., 2 * width].

    Returns:
        [..., width], with the dtype of `x`.
    """
    graphffi.check(
        len(x.shape) > 0, f"operand 'x': expected at least 1 dimensions, got {x.dtype}[]"
    )
    return graphffi.like(x, shape=(*x.shape[:-1], x.shape[-1] // 2))


@graphffi.op(
    "llama::kv_cache_append",
    kernel=_kernels.kv_cache_append,
    mutates=("cache_k", "cache_v"),
    strided=True,
)
def kv_cache_append(
    cache_k: Tensor, cache_v: Tensor, k: Tensor, v: Tensor, positions: Tensor
) -> None:
    """Write the keys and values of new tokens into the caches, in place.

    Args:
        cache_k: [batch, kv_heads, capacity, head_dim].
        cache_v: Like `cache_k`.
        k: [batch, tokens, kv_heads, head_dim], with the dtype of `cache_k`.
        v: Like `k`.
        positions: int32 or int64[tokens], each below capacity.

    Returns:
        The updated `cache_k` and `cache_v`.
    """
    _expect_rank("cache_k", cache_k, 4, "[batch, kv_heads, capacity, head_dim]")
    _expect_rank("k", k, 4, "[batch, tokens, kv_heads, head_dim]")
    batch, heads, capacity, head_dim = cache_k.shape
    _expect_shape("cache_v", cache_v, batch, heads, capacity, head_dim)
    _expect_shape("k", k, batch, k.shape[1], heads, head_dim)
    _expect_shape("v", v, batch, k.shape[1], heads, head_dim)
    _expect_shape("positions", positions, k.shape[1])


@graphffi.op(
    "llama::decode_attention",
    kernel=_kernels.decode_attention,
    plan="q, k_cache, v_cache, length, mask, out, scale",
    strided=True,
)
def decode_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    length: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Attention of some queries over the first `length` tokens of the caches.

    Each kv head serves heads / kv_heads consecutive query heads. A query that sees no token gives
    zeros.

    Args:
        q: [batch, tokens, heads, head_dim].
        k_cache: [batch, kv_heads, capacity, head_dim], with the dtype of `q`.
        v_cache: Like `k_cache`.
        length: int32 or int64, one element, at most capacity.
        mask: bool[tokens, capacity], true where a query sees a cached token.
        scale: Of the scores, before the softmax.

    Returns:
        Like `q`.
    """
    _expect_rank("q", q, 4, "[batch, tokens, heads, head_dim]")
    _expect_rank("k_cache", k_cache, 4, "[batch, kv_heads, capacity, head_dim]")
    batch, tokens, _, head_dim = q.shape
    _, kv_heads, capacity, _ = k_cache.shape
    _expect_shape("k_cache", k_cache, batch, kv_heads, capacity, head_dim)
    _expect_shape("v_cache", v_cache, batch, kv_heads, capacity, head_dim)
    if mask is not None:
        _expect_shape("mask", mask, tokens, capacity)
    return graphffi.like(q)

# SPDX-License-Identifier: Apache-2.0
"""The operations of a decoder layer: C++ kernels, defined once for PyTorch, JAX and NumPy.

The kernels run on the CPU, take float32 and bfloat16, and check dtypes, layouts and values
themselves. Norm and attention have several, of which a call runs the first whose condition holds:
`rms_norm.explain(x, weight)` says which. The rules below check shapes, so that a wrong one is found
while a graph is traced.
Positions and lengths are tensors, not numbers: one compiled graph serves all steps of a decode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import graphffi
from graphffi import Tensor

_HERE = Path(__file__).parent


def _has(*features: str) -> bool:
    """Whether the processor has all these instructions, by their names in /proc/cpuinfo."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    found = next((line.split() for line in lines if line.startswith("flags")), [])
    return set(features) <= set(found)


HAS_AVX2 = _has("avx2", "fma")
SCALAR = ("-O3", "-fno-tree-vectorize")
VECTOR = ("-O3", "-fopenmp-simd", "-mavx2", "-mfma") if HAS_AVX2 else SCALAR
HEAD_SIZES = (32, 64, 128)  # that are worth a kernel of their own


def _load(name: str, cflags: tuple[str, ...]) -> graphffi.Module:
    return graphffi.load_module(
        graphffi.cpp.build(name, [_HERE / "kernels.cc"], extra_cflags=cflags)
    )


_scalar = _load("llama_scalar", SCALAR)
_vector = _load("llama_vector", VECTOR) if HAS_AVX2 else _scalar


def _described(operand: Any) -> str:
    return f"{operand.dtype}[{', '.join(str(size) for size in operand.shape)}]"


def _expect_shape(name: str, operand: Any, *shape: Any) -> None:
    sizes = ", ".join(str(size) for size in shape)
    graphffi.check(
        len(operand.shape) == len(shape)
        and all(size == wanted for size, wanted in zip(operand.shape, shape, strict=True)),
        f"operand '{name}': expected shape [{sizes}], got {_described(operand)}",
    )


def _expect_rank(name: str, operand: Any, rank: int, meaning: str) -> None:
    graphffi.check(
        len(operand.shape) == rank,
        f"operand '{name}': expected {meaning}, got {_described(operand)}",
    )


@graphffi.op("llama::rms_norm", strided=True, gradient="reference")
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


# The first kernel that fits a call runs.
_NORM_PLAN = "x, weight, out, eps"
rms_norm.add_kernel(
    _vector.rms_norm_threaded,
    name="threaded",
    plan=_NORM_PLAN,
    when=lambda x, weight, eps: x.numel >= 1 << 18,
)
rms_norm.add_kernel(
    _vector.rms_norm,
    name="avx2",
    plan=_NORM_PLAN,
    when=lambda x, weight, eps: HAS_AVX2 and x.shape[-1] >= 8,
)
rms_norm.add_kernel(_scalar.rms_norm, name="scalar", plan=_NORM_PLAN)


@rms_norm.set_reference
def _rms_norm(xp: Any, x: Any, weight: Any, eps: float) -> Any:
    wide = xp.astype(x, xp.float32)
    inverse = (xp.mean(wide * wide, axis=-1, keepdims=True) + eps) ** -0.5
    return xp.astype(wide * inverse * xp.astype(weight, xp.float32), x.dtype)


@graphffi.op("llama::rope", kernel=_vector.rope, mutates=("q", "k"), strided=True)
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


@rope.set_reference
def _rope(xp: Any, q: Any, k: Any, cos: Any, sin: Any, positions: Any) -> Any:
    half = cos.shape[-1]
    cosine, sine = (xp.take(table, positions, axis=0)[:, None, :] for table in (cos, sin))

    def rotated(x: Any) -> Any:
        a, b = (xp.astype(part, xp.float32) for part in (x[..., :half], x[..., half:]))
        turned = xp.concat((a * cosine - b * sine, b * cosine + a * sine), axis=-1)
        return xp.astype(turned, x.dtype)

    return rotated(q), rotated(k)


@graphffi.op("llama::silu_and_mul", kernel=_vector.silu_and_mul, strided=True, gradient="reference")
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


@silu_and_mul.set_reference
def _silu_and_mul(xp: Any, x: Any) -> Any:
    width = x.shape[-1] // 2
    gate, up = (xp.astype(part, xp.float32) for part in (x[..., :width], x[..., width:]))
    return xp.astype(gate / (1 + xp.exp(-gate)) * up, x.dtype)


@graphffi.op(
    "llama::kv_cache_append",
    kernel=_vector.kv_cache_append,
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


@kv_cache_append.set_reference
def _kv_cache_append(
    xp: Any, cache_k: Any, cache_v: Any, k: Any, v: Any, positions: Any
) -> tuple[Any, Any]:
    tokens = k.shape[1]
    if tokens == 0:
        return cache_k, cache_v
    # The last token that is written to each place; -1 for none.
    is_there = positions[None, :] == xp.arange(cache_k.shape[2])[:, None]
    writer = xp.max(xp.where(is_there, xp.arange(tokens), -1), axis=-1)

    def appended(cache: Any, new: Any) -> Any:
        written = xp.take(xp.moveaxis(new, 1, 2), xp.clip(writer, 0, None), axis=2)
        return xp.where((writer >= 0)[:, None], written, cache)

    return appended(cache_k, k), appended(cache_v, v)


@graphffi.op("llama::decode_attention", strided=True, gradient="reference")
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


_ATTENTION_PLAN = "q, k_cache, v_cache, length, mask, out, scale"
decode_attention.add_kernel(
    _vector.decode_attention_threaded,
    name="threaded",
    plan=_ATTENTION_PLAN,
    when=lambda q, k_cache, *_: q.numel * k_cache.shape[2] >= 1 << 22,
)


@decode_attention.add_factory(
    name="head_size",
    plan=_ATTENTION_PLAN,
    key=lambda q, *_: q.shape[3],
    when=lambda q, *_: q.shape[3] in HEAD_SIZES,
    depends=[_HERE / name for name in ("attention.cc", "attention.h", "element.h", "threads.h")],
)
def _attention_of_heads(head_dim: int) -> str:
    """Loops over a head are unrolled: compiled when a head size is first met."""
    flags = (*VECTOR, f"-DHEAD_DIM={head_dim}")
    source = _HERE / "attention.cc"
    library: str = graphffi.cpp.build("llama_attention", [source], extra_cflags=flags)
    return library


decode_attention.add_kernel(
    _vector.decode_attention,
    name="avx2",
    plan=_ATTENTION_PLAN,
    when=lambda q, *_: HAS_AVX2 and q.shape[3] >= 8,
)
decode_attention.add_kernel(_scalar.decode_attention, name="scalar", plan=_ATTENTION_PLAN)


@decode_attention.set_reference
def _decode_attention(
    xp: Any, q: Any, k_cache: Any, v_cache: Any, length: Any, mask: Any, scale: float
) -> Any:
    batch, tokens, heads, head_dim = q.shape
    _, kv_heads, capacity, _ = k_cache.shape
    if 0 in (batch, tokens, heads, head_dim, capacity):
        return xp.zeros_like(q)
    wide, k, v = (xp.astype(x, xp.float32) for x in (xp.moveaxis(q, 2, 1), k_cache, v_cache))
    wide = xp.reshape(wide, (batch, kv_heads, heads // kv_heads, tokens, head_dim))
    scores = scale * (wide @ xp.matrix_transpose(k)[:, :, None])
    is_seen = (xp.arange(capacity) < xp.reshape(length, (1,)))[None, :]
    if mask is not None:
        is_seen = is_seen & mask
    scores = xp.where(is_seen, scores, -1e30)
    weights = xp.where(is_seen, xp.exp(scores - xp.max(scores, axis=-1, keepdims=True)), 0.0)
    total = xp.sum(weights, axis=-1, keepdims=True)
    out = weights @ v[:, :, None] / xp.where(total > 0, total, 1.0)
    out = xp.reshape(out, (batch, heads, tokens, head_dim))
    return xp.astype(xp.moveaxis(out, 1, 2), q.dtype)

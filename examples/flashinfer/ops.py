# SPDX-License-Identifier: Apache-2.0
"""One definition for each kernel of FlashInfer that the decoder calls, for torch and JAX.

Tensors are row-major; n is the number of sequences. A page has `PAGE_SIZE` tokens; a cache is
``[pages, PAGE_SIZE, kv heads, HEAD_DIM]``, and a table of pages has three tensors of int32, as
`model.page_table` makes them.
"""

from __future__ import annotations

from typing import Any, Final

import graphffi
from graphffi import Tensor

from .config import EPS, HEAD_DIM, THETA

# All of these kernels only launch work. `false` behind a plan is programmatic dependent launch.
_LAUNCHES: Final[dict[str, Any]] = {"allow_cuda_graph": True}


@graphffi.op(
    "flashinfer::rms_norm",
    kernel="flashinfer_norm.so::rmsnorm",
    plan="out, x, weight, eps, false",
    dims="n [h], [h] -> n [h]",
    dtypes="float16, float16 -> float16",
    **_LAUNCHES,
)
def rms_norm(x: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    """Divides each row by its root mean square."""
    return graphffi.like(x)


@graphffi.op(
    "flashinfer::add_rms_norm",
    kernel="flashinfer_norm.so::fused_add_rmsnorm",
    plan="x, residual, weight, eps, false",
    mutates=("x", "residual"),
    dims="n [h], n [h], [h] ->",
    dtypes="float16, float16, float16 ->",
    **_LAUNCHES,
)
def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float = EPS) -> None:
    """Adds x to residual, and replaces x with the norm of the sum."""


@graphffi.op(
    "flashinfer::rope",
    kernel="flashinfer_rope.so::apply_rope_pos_ids",
    plan=f"q, k, out0, out1, positions, {HEAD_DIM}, false, 1.0, theta",
    strided=("q", "k"),
    dtypes="float16, float16, int32 -> float16, float16",
    **_LAUNCHES,
)
def rope(q: Tensor, k: Tensor, positions: Tensor, theta: float = THETA) -> tuple[Tensor, Tensor]:
    """Rotates q and k, ``[n, heads, HEAD_DIM]``, by positions: ``[n]``."""
    return graphffi.like(q), graphffi.like(k)


@graphffi.op(
    "flashinfer::append_cache",
    kernel="flashinfer_page.so::append_paged_kv_cache",
    plan="k, v, rows, positions, keys, values, indices, indptr, last, 0",
    mutates=("keys", "values"),
    strided=("v",),
    **_LAUNCHES,
)
def append_cache(
    keys: Tensor,
    values: Tensor,
    k: Tensor,
    v: Tensor,
    rows: Tensor,
    positions: Tensor,
    indices: Tensor,
    indptr: Tensor,
    last: Tensor,
) -> None:
    """Writes k and v of sequence rows[i] at positions[i] into their pages."""


@graphffi.op(
    "flashinfer::attention",
    kernel="flashinfer_decode.so::run",
    plan="schedule, schedule, offsets, q, keys, values, indptr, indices, last, out, "
    f"None, 0, -1, false, None, 0.0, {HEAD_DIM**-0.5}",
    dtypes="float16, float16, float16, int32, int32, int32, int32 -> float16",
    **_LAUNCHES,
)
def attention(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    indices: Tensor,
    indptr: Tensor,
    last: Tensor,
    schedule: Tensor,
    offsets: list[int],
) -> Tensor:
    """Attends from one token of each sequence; `model.schedule` gives the last two."""
    return graphffi.like(q)


@graphffi.op(
    "flashinfer::silu_and_mul",
    kernel="flashinfer_activation.so::silu_and_mul",
    plan="out, x, false",
    dtypes="float16 -> float16",
    **_LAUNCHES,
)
def silu_and_mul(x: Tensor) -> Tensor:
    """Multiplies silu of the first half of each row with the second half."""
    return graphffi.like(x, shape=(*x.shape[:-1], x.shape[-1] // 2))


@graphffi.op(
    "flashinfer::softmax",
    kernel="flashinfer_sampling.so::softmax",
    plan="workspace, logits, out, None, temperature, false",
    workspace=1 << 20,
    dtypes="float32 -> float32",
    **_LAUNCHES,
)
def softmax(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """The probabilities of each row."""
    return graphffi.like(logits)


@graphffi.op(
    "flashinfer::sample",
    kernel="flashinfer_sampling.so::top_k_sampling_from_probs",
    plan="probs, out0, out1, None, None, top_k, true, None, seed, None, 0",
    dims="n [v] -> n, n",
    dtypes="float32 -> int32, bool",
    **_LAUNCHES,
)
def sample(probs: Tensor, top_k: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draws a token of the most likely ones of each row; and which rows are probabilities."""
    size = probs.shape[:1]
    return graphffi.empty(size, "int32"), graphffi.empty(size, "bool")

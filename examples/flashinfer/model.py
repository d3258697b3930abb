# SPDX-License-Identifier: Apache-2.0
"""One step of the decoder: the same function for torch and for JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import ops
from .config import (
    BATCH,
    HEAD_DIM,
    HIDDEN,
    INTERMEDIATE,
    MOST_PAGES,
    NUM_HEADS,
    NUM_KV_HEADS,
    NUM_LAYERS,
    PAGE_SIZE,
    VOCABULARY,
)

_WIDTHS = (NUM_HEADS * HEAD_DIM, NUM_KV_HEADS * HEAD_DIM)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of dicts and lists with what a function makes of each array."""
    if isinstance(tree, dict):
        return {name: mapped(function, part) for name, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [mapped(function, part) for part in tree]
    return function(tree)


def make_weights(seed: int = 0) -> dict[str, Any]:
    """Random weights, float16."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return np.asarray(random.standard_normal((rows, columns)) / rows**0.5, "float16")

    def norm() -> np.ndarray:
        return np.asarray(1 + 0.1 * random.standard_normal(HIDDEN), "float16")

    layers = [
        {
            "qkv": matrix(HIDDEN, _WIDTHS[0] + 2 * _WIDTHS[1]),
            "out": matrix(_WIDTHS[0], HIDDEN),
            "norm": norm(),
            "up": matrix(HIDDEN, 2 * INTERMEDIATE),
            "down": matrix(INTERMEDIATE, HIDDEN),
            "next_norm": norm(),
        }
        for _ in range(NUM_LAYERS)
    ]
    embedding = random.standard_normal((VOCABULARY, HIDDEN)).astype("float16")
    head = matrix(HIDDEN, VOCABULARY)
    return {"embedding": embedding, "norm": norm(), "layers": layers, "head": head}


def make_constants() -> dict[str, np.ndarray]:
    """Numbers that steps count with: of places in the table of pages, of sequences."""
    slots = np.arange(BATCH * MOST_PAGES, dtype="int32")
    rows = np.arange(BATCH + 1, dtype="int32")
    return {"slots": slots, "rows": rows, "schedule": schedule()[0]}


def make_caches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Empty pages of keys and of values, for each layer."""
    shape = (BATCH * MOST_PAGES, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM)
    return [(np.zeros(shape, "float16"), np.zeros(shape, "float16")) for _ in range(NUM_LAYERS)]


def schedule() -> tuple[np.ndarray, list[int]]:
    """FlashInfer's plan of a batch in which no sequence is split: its numbers, and where they are.

    They do not depend on the lengths, so that a recorded graph serves all of them. The numbers of
    int32 are the sequence and the part of each block of threads, the first block of each
    sequence, and the length of a part; their places, in bytes, stand in FlashInfer's order.
    """
    rows = np.arange(BATCH + 1, dtype="int32")
    parts = (rows[:-1], np.zeros(BATCH, "int32"), rows, np.ones(1, "int32"))
    sequence, part, first, length = (4 * n for n in (0, BATCH, 2 * BATCH, 3 * BATCH + 1))
    return np.concatenate(parts), [BATCH, 0, 0, sequence, part, first, 0, length, 0, 0]


def page_table(constants: dict[str, Any], position: Any) -> tuple[Any, Any, Any]:
    """The pages in use, where each sequence's begin among them, and tokens in its last one.

    The sequences have equal lengths and take pages in turn: page p of sequence s is p * BATCH + s.
    """
    slots, rows = constants["slots"], constants["rows"]
    count = position // PAGE_SIZE + 1
    last = position % PAGE_SIZE + 1
    return slots % count * BATCH + slots // count, rows * count, rows[:-1] * 0 + last


def step(
    weights: dict[str, Any],
    constants: dict[str, Any],
    caches: list[tuple[Any, Any]],
    token: Any,
    position: Any,
    as_float32: Callable[[Any], Any],
) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """Decodes one token of each sequence: ``int32[BATCH]``, at a position: ``int32[]``.

    Returns:
        The next tokens, the logits and the caches.
    """
    indices, indptr, last = page_table(constants, position)
    rows = constants["rows"][:-1]
    positions = rows * 0 + position
    residual = weights["embedding"][token]
    x = ops.rms_norm(residual, weights["norm"])
    updated = []
    for layer, cache in zip(weights["layers"], caches, strict=True):
        q, k, v = _heads(x @ layer["qkv"])
        q, k = ops.rope(q, k, positions)
        keys, values = ops.append_cache(*cache, k, v, rows, positions, indices, indptr, last)
        updated.append((keys, values))
        a = ops.attention(
            q, keys, values, indices, indptr, last, constants["schedule"], schedule()[1]
        )
        x = a.reshape(BATCH, -1) @ layer["out"]
        x, residual = ops.add_rms_norm(x, residual, layer["norm"])
        x = ops.silu_and_mul(x @ layer["up"]) @ layer["down"]
        x, residual = ops.add_rms_norm(x, residual, layer["next_norm"])
    logits = as_float32(x @ weights["head"])
    token, _ = ops.sample(ops.softmax(logits))
    return token, logits, updated


def _heads(qkv: Any) -> tuple[Any, Any, Any]:
    """Views of queries, keys and values: ``[BATCH, heads, HEAD_DIM]``."""
    query, key = _WIDTHS
    q, k, v = qkv[:, :query], qkv[:, query : query + key], qkv[:, query + key :]
    shape = (BATCH, -1, HEAD_DIM)
    return q.reshape(shape), k.reshape(shape), v.reshape(shape)

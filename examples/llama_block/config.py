# SPDX-License-Identifier: Apache-2.0
"""The size of the decoder, and its weights: random but seeded, the same for both frameworks."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class Config:
    """The dimensions of a decoder; the default is small enough for tests on one core."""

    layers: int = 4
    hidden: int = 256
    heads: int = 8
    kv_heads: int = 2
    intermediate: int = 688
    vocabulary: int = 512
    capacity: int = 128  # tokens that the key-value caches hold
    rope_base: float = 10000.0
    eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


class LayerWeights(TypedDict):
    """Weights of one layer; `Any` is the array type of a framework. Products are `x @ w`."""

    attention_norm: Any  # [hidden]
    qkv: Any  # [hidden, (heads + 2 * kv_heads) * head_dim]
    attention_out: Any  # [heads * head_dim, hidden]
    mlp_norm: Any  # [hidden]
    gate_up: Any  # [hidden, 2 * intermediate]
    down: Any  # [intermediate, hidden]


class Weights(TypedDict):
    """Weights of the decoder, and its tables."""

    embedding: Any  # [vocabulary, hidden]
    layers: list[LayerWeights]
    final_norm: Any  # [hidden]
    lm_head: Any  # [hidden, vocabulary]
    cos: Any  # [capacity, head_dim / 2], float32 whatever the dtype of the weights
    sin: Any  # [capacity, head_dim / 2], float32 whatever the dtype of the weights


def random_weights(config: Config, *, seed: int = 0) -> Weights:
    """Make the weights of a decoder.

    Args:
        config: The dimensions.
        seed: Of NumPy's generator.

    Returns:
        The weights as float32 NumPy arrays.
    """
    generator = np.random.default_rng(seed)
    hidden, width = config.hidden, config.head_dim

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        scale = rows**-0.5
        normal: NDArray[np.float64] = generator.standard_normal((rows, columns)) * scale
        return normal.astype(np.float32)

    def norm() -> NDArray[np.float32]:
        return (1.0 + 0.1 * generator.standard_normal(hidden)).astype(np.float32)

    def layer() -> LayerWeights:
        return {
            "attention_norm": norm(),
            "qkv": matrix(hidden, (config.heads + 2 * config.kv_heads) * width),
            "attention_out": matrix(config.heads * width, hidden),
            "mlp_norm": norm(),
            "gate_up": matrix(hidden, 2 * config.intermediate),
            "down": matrix(config.intermediate, hidden),
        }

    frequencies = config.rope_base ** (-np.arange(0, width, 2) / width)
    angles = np.arange(config.capacity)[:, None] * frequencies[None, :]
    return {
        "embedding": generator.standard_normal((config.vocabulary, hidden)).astype(np.float32),
        "layers": [layer() for _ in range(config.layers)],
        "final_norm": norm(),
        "lm_head": matrix(hidden, config.vocabulary),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }

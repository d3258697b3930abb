# SPDX-License-Identifier: Apache-2.0
"""The network, written once: with operators that torch tensors and JAX arrays both have.

An image of 8 x 8 pixels is a sequence of 8 rows. `operations` is `ops` (C++ kernels),
`reference_torch` or `reference_jax`: norm, activation and attention.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

ROWS, PIXELS, CLASSES = 8, 8, 10
WIDTH, HEADS, HIDDEN, BLOCKS = 32, 4, 64, 1

# Arrays by name, in any framework.
Parameters = dict[str, Any]


def initial_parameters(seed: int) -> Parameters:
    """Float32 arrays of NumPy."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Any:
        return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    parameters = {
        "embedding": matrix(PIXELS, WIDTH),
        "positions": 0.1 * matrix(ROWS, WIDTH),
        "last_norm": np.ones(WIDTH, np.float32),
        "classes": matrix(WIDTH, CLASSES),
    }
    for i in range(BLOCKS):
        parameters |= {
            f"attention_norm{i}": np.ones(WIDTH, np.float32),
            f"qkv{i}": matrix(WIDTH, 3 * WIDTH),
            f"attention_out{i}": matrix(WIDTH, WIDTH),
            f"mlp_norm{i}": np.ones(WIDTH, np.float32),
            f"up{i}": matrix(WIDTH, HIDDEN),
            f"down{i}": matrix(HIDDEN, WIDTH),
        }
    return parameters


def logits(operations: ModuleType, parameters: Parameters, images: Any) -> Any:
    """What the network thinks of images.

    Args:
        operations: Norm, activation and attention.
        parameters: As `initial_parameters` makes them.
        images: [..., 8, 8].

    Returns:
        [..., 10].
    """
    p = parameters
    scale = (WIDTH // HEADS) ** -0.5
    x = images @ p["embedding"] + p["positions"]
    for i in range(BLOCKS):
        normed = operations.rms_norm(x, p[f"attention_norm{i}"])[0]
        qkv = (normed @ p[f"qkv{i}"]).reshape((*x.shape[:-1], 3, HEADS, WIDTH // HEADS))
        attended = operations.attention(qkv, scale)[0].reshape(x.shape)
        x = x + attended @ p[f"attention_out{i}"]
        normed = operations.rms_norm(x, p[f"mlp_norm{i}"])[0]
        x = x + operations.swish(normed @ p[f"up{i}"]) @ p[f"down{i}"]
    return operations.rms_norm(x.mean(-2), p["last_norm"])[0] @ p["classes"]

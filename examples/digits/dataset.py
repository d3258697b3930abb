# SPDX-License-Identifier: Apache-2.0
"""1,797 handwritten digits of 8 x 8 pixels, which come with scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

BATCH = 64


class Split(NamedTuple):
    """Images float32[n, 8, 8] between 0 and 1, and labels int32[n]."""

    images: Any
    labels: Any


def load() -> tuple[Split, Split]:
    """The training set (1,437 images) and the test set (360).

    Raises:
        ImportError: If scikit-learn is not installed.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order] / 16).astype(np.float32)
    labels = digits.target[order].astype(np.int32)
    test = len(order) // 5 + 1
    return Split(images[test:], labels[test:]), Split(images[:test], labels[:test])


def batches(split: Split, *, epochs: int, seed: int) -> Iterator[Split]:
    """Batches of one size, in another order in each epoch; the remainder waits for the next."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(len(split.labels))
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[begin : begin + BATCH]
            yield Split(split.images[chosen], split.labels[chosen])

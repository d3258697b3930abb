# SPDX-License-Identifier: Apache-2.0
"""The sizes of the model."""

from __future__ import annotations

from typing import Final

BATCH: Final = 4
HIDDEN: Final = 512
NUM_LAYERS: Final = 2
NUM_HEADS: Final = 8
NUM_KV_HEADS: Final = 2
HEAD_DIM: Final = 64
INTERMEDIATE: Final = 1024
VOCABULARY: Final = 1024
PAGE_SIZE: Final = 16
MOST_TOKENS: Final = 128  # of a sequence
MOST_PAGES: Final = MOST_TOKENS // PAGE_SIZE
EPS: Final = 1e-6
THETA: Final = 10000.0

# SPDX-License-Identifier: Apache-2.0
"""The oldest torch that is tested, which lacks what later ones have."""

from __future__ import annotations

import torch

IS_TORCH_2_10 = torch.__version__.startswith("2.10.")

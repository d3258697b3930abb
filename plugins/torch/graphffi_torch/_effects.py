# SPDX-License-Identifier: Apache-2.0
"""Side effects of ops, as torch's compilers know them.

Torch has no public name for this (up to 2.13): `torch.library._register_effectful_op` threads a
token through the graph, so that calls are neither dropped nor merged nor reordered. Where it is
missing, calls are not dropped.
"""

from __future__ import annotations

from typing import Any

import torch


def register_side_effect(operator: Any) -> None:
    """Makes compilers keep every call of an operator, in order.

    Args:
        operator: One that is called for more than its results.
    """
    library: Any = torch.library
    if hasattr(library, "_register_effectful_op"):
        library._register_effectful_op(operator, library.EffectType.ORDERED)
    else:
        torch.fx.has_side_effect(operator)

# SPDX-License-Identifier: Apache-2.0
"""The log of kernels that are made, chosen and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def kernel_log() -> logging.Logger:
    """``logging.getLogger("graphffi.kernels")``; `import graphffi` spares logging's 3 ms."""
    import logging

    return logging.getLogger("graphffi.kernels")

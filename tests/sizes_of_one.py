# SPDX-License-Identifier: Apache-2.0
"""Exports of programs for sizes of 1, too."""

from __future__ import annotations

from typing import Any

from torch.fx.experimental import _config


def sizes_of_one() -> Any:
    """A context in which `torch.export` does not take sizes to be 2 or more."""
    config: Any = _config
    return config.patch(backed_size_oblivious=True)

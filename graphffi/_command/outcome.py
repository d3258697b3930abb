# SPDX-License-Identifier: Apache-2.0
"""The result of a subcommand of ``graphffi``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """The result of a subcommand.

    Args:
        facts: For ``--json``.
        lines: For people.
        status: Of the process: 0, or 1 where something is wrong.
    """

    facts: Any
    lines: Sequence[str]
    status: int = 0

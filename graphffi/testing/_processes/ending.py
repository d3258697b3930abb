# SPDX-License-Identifier: Apache-2.0
"""The end of a process, in words."""

from __future__ import annotations

import signal


def how_it_ended(status: int) -> str:
    """Of an exit status, or of a signal's negative number."""
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"

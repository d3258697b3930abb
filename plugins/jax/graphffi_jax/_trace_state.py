# SPDX-License-Identifier: Apache-2.0
"""Tells if JAX traces the operations of this thread."""

from __future__ import annotations

import threading
from typing import Any, Final

import jax
import jax.extend.core

# Older versions have it in jax.core.
_current: Final[Any] = getattr(jax.extend.core, "get_opaque_trace_state", None) or getattr(
    jax.core, "get_opaque_trace_state", None
)
_states: Final[list[Any]] = []


def is_tracing() -> bool:
    """True if a trace or a transformation of JAX is under way in this thread."""
    return bool(_current(None) != _states[0])


# This module may be imported in the middle of a trace; no other thread takes part in it.
_other_thread: Final = threading.Thread(target=lambda: _states.append(_current(None)))
_other_thread.start()
_other_thread.join()

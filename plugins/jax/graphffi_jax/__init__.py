# SPDX-License-Identifier: Apache-2.0
"""graphffi's ops and TVM FFI functions under JAX: eager, in `jax.jit`, in exported programs.

Importing it registers the custom-call targets with XLA and JAX's arrays with graphffi; graphffi
does that by itself when it meets the first array.
"""

from __future__ import annotations

from ._errors import errors as errors
from ._framework import register as _register
from ._library import TARGET as TARGET
from ._library import TARGET_GRAPH as TARGET_GRAPH

__all__ = ["TARGET", "TARGET_GRAPH", "errors"]

_register()

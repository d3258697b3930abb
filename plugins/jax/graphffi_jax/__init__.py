# SPDX-License-Identifier: Apache-2.0
"""graphffi's ops and TVM FFI functions under JAX: eager, in `jax.jit`, in exported programs.

Importing it registers the custom-call targets with XLA and JAX's arrays with graphffi; graphffi
does that by itself when it meets the first array.
"""

from __future__ import annotations

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as _error:
    raise ImportError(
        "graphffi_jax: expected jax 0.6 or newer, got none; pip install jax"
    ) from _error

from ._call import call as call
from ._errors import errors as errors
from ._export import export_checks as export_checks
from ._framework import register as _register
from ._library import TARGET as TARGET
from ._library import TARGET_GRAPH as TARGET_GRAPH
from ._nested import nested_programs as nested_programs
from ._package import load_package as load_package
from ._package import package as package
from ._targets import register_ffi_target as register_ffi_target
from ._targets import registered_count as registered_count
from ._workspace import WorkspaceUse as WorkspaceUse
from ._workspace import get_last_workspace_peak as get_last_workspace_peak
from ._workspace import workspace_peaks as workspace_peaks

__all__ = [
    "TARGET",
    "TARGET_GRAPH",
    "WorkspaceUse",
    "call",
    "errors",
    "export_checks",
    "get_last_workspace_peak",
    "load_package",
    "nested_programs",
    "package",
    "register_ffi_target",
    "registered_count",
    "workspace_peaks",
]

_register()

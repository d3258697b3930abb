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

from graphffi_jax._call import call as call
from graphffi_jax._errors import errors as errors
from graphffi_jax._export.export import export_checks as export_checks
from graphffi_jax._export.package import load_package as load_package
from graphffi_jax._export.package import package as package
from graphffi_jax._framework import register as _register
from graphffi_jax._inspect import Inspection as Inspection
from graphffi_jax._inspect import inspect as inspect
from graphffi_jax._lowering.targets import register_ffi_target as register_ffi_target

__all__ = [
    "Inspection",
    "call",
    "errors",
    "export_checks",
    "inspect",
    "load_package",
    "package",
    "register_ffi_target",
]

_register()

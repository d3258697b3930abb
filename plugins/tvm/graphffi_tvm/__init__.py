# SPDX-License-Identifier: Apache-2.0
"""The Apache TVM plugin of graphffi: ops of exported PyTorch programs as calls in Relax modules."""

from __future__ import annotations

# First: it says what is wrong where apache-tvm can't have the process's runtime.
import graphffi as _graphffi  # noqa: F401

# isort: split
try:
    from tvm import relax as _relax
except ModuleNotFoundError as _error:
    raise ImportError(
        "graphffi_tvm: expected apache-tvm 0.27 or newer, got none; pip install apache-tvm"
    ) from _error
if not hasattr(_relax, "TensorType"):
    raise ImportError("graphffi_tvm: expected apache-tvm 0.27 or newer, got an older one")

# isort: split
from graphffi_tvm._convert import convert_map as convert_map
from graphffi_tvm._functions import function_names as function_names
from graphffi_tvm._functions import register_functions as register_functions

__all__ = ["convert_map", "function_names", "register_functions"]

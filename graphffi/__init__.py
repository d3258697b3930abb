# SPDX-License-Identifier: Apache-2.0
"""Kernels that speak the TVM FFI ABI, called from graph compilers."""

from __future__ import annotations

from ._runtime import Runtime as Runtime
from ._runtime import runtime_info as runtime_info

# isort: split
# From here on, the runtime is loaded.
from ._core import Function as Function
from ._core import Object as Object
from ._core import Tensor as Tensor
from ._device import Device as Device
from ._dtype import dtype as dtype
from ._error import Error as Error
from ._error import InternalError as InternalError
from ._error import register_error as register_error
from ._module import Module as Module
from ._module import load_module as load_module
from ._registry import get_global_func as get_global_func
from ._registry import list_global_func_names as list_global_func_names
from ._registry import register_global_func as register_global_func
from ._registry import remove_global_func as remove_global_func
from ._shape import Shape as Shape
from ._stream import use_stream as use_stream
from ._tensor import from_dlpack as from_dlpack

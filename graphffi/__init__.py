# SPDX-License-Identifier: Apache-2.0
"""Kernels that speak the TVM FFI ABI, called from graph compilers."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any
from typing import TypeAlias as _TypeAlias

from ._values.runtime import runtime_info as runtime_info

# isort: split
# From here on, the runtime is loaded.
from ._command.record import record as record
from ._contract.spec import TensorSpec as TensorSpec
from ._contract.spec import check as check
from ._contract.spec import empty as empty
from ._contract.spec import like as like
from ._core import Function as Function
from ._core import Object as Object
from ._definition.define import define_op as define_op
from ._definition.define import op as op
from ._definition.load_ops import load_ops as load_ops
from ._definition.op import Op as Op
from ._definition.op_table import use_tuning as use_tuning
from ._definition.raw_call import call_tvm_ffi as call_tvm_ffi
from ._frameworks import host as _host  # noqa: F401
from ._frameworks.import_hook import when_imported as _when_imported
from ._frameworks.plugins import prepare_for_tracing as _prepare_for_tracing
from ._kernels.declared import declare as declare
from ._kernels.prebuild import prebuild as prebuild
from ._kernels.prebuild import use_prebuilt as use_prebuilt
from ._tuning.tune import tune as tune
from ._values import map as _map  # noqa: F401
from ._values.device import Device as Device
from ._values.dtype import dtype as dtype
from ._values.error import Error as Error
from ._values.error import register_error as register_error
from ._values.module import Module as Module
from ._values.module import load_module as load_module
from ._values.registry import get_global_func as get_global_func
from ._values.registry import list_global_func_names as list_global_func_names
from ._values.registry import register_global_func as register_global_func
from ._values.registry import remove_global_func as remove_global_func
from ._values.shape import Shape as Shape
from ._values.stream import use_stream as use_stream
from ._values.tensor import from_dlpack as from_dlpack
from ._version import __version__ as __version__

if _TYPE_CHECKING:
    from . import cpp as cpp

    # An operand is a tensor of any framework, and so is a result.
    Tensor: _TypeAlias = _Any
else:
    from ._core import Tensor as Tensor

__all__ = [
    "Device",
    "Error",
    "Function",
    "Module",
    "Object",
    "Op",
    "Shape",
    "Tensor",
    "TensorSpec",
    "call_tvm_ffi",
    "check",
    "cpp",
    "declare",
    "define_op",
    "dtype",
    "empty",
    "from_dlpack",
    "get_global_func",
    "like",
    "list_global_func_names",
    "load_module",
    "load_ops",
    "op",
    "prebuild",
    "record",
    "register_error",
    "register_global_func",
    "remove_global_func",
    "runtime_info",
    "tune",
    "use_prebuilt",
    "use_stream",
    "use_tuning",
]


def __getattr__(name: str) -> _Any:
    """Import `graphffi.cpp`, which few programs need, when it is first used."""
    if name == "cpp":
        from importlib import import_module

        return import_module(".cpp", __name__)
    raise AttributeError(f"module 'graphffi' has no attribute {name!r}", name=name)


# Before any op is known: calls of functions can be traced, too.
_when_imported("torch._dynamo", _prepare_for_tracing)

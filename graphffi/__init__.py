# SPDX-License-Identifier: Apache-2.0
"""Kernels that speak the TVM FFI ABI, called from graph compilers."""

from __future__ import annotations

from typing import Any as _Any

from ._runtime import Runtime as Runtime
from ._runtime import runtime_info as runtime_info

# isort: split
# From here on, the runtime is loaded.
from . import _host as _host
from ._binding import BoundCall as BoundCall
from ._core import Function as Function
from ._core import Object as Object
from ._core import Tensor as Tensor
from ._cuda import cuda_module as cuda_module
from ._device import Device as Device
from ._dtype import dtype as dtype
from ._error import Error as Error
from ._error import InternalError as InternalError
from ._error import register_error as register_error
from ._framework import Framework as Framework
from ._framework import prepare_for_tracing as _prepare_for_tracing
from ._framework import register_framework as register_framework
from ._import_hook import when_imported as when_imported
from ._location import include_path as include_path
from ._module import Module as Module
from ._module import export_library as export_library
from ._module import load_module as load_module
from ._op import Op as Op
from ._op import define_op as define_op
from ._op import get_op as get_op
from ._op import op as op
from ._package import PackagedLibraries as PackagedLibraries
from ._package import packaged_name as packaged_name
from ._package import trusted_hashes as trusted_hashes
from ._parameter import MISSING as MISSING
from ._parameter import Attribute as Attribute
from ._parameter import Operand as Operand
from ._plan import CallTraits as CallTraits
from ._plan import CanonicalCall as CanonicalCall
from ._plan import SideEffect as SideEffect
from ._raw_call import call_tvm_ffi as call_tvm_ffi
from ._raw_call import pack_call as pack_call
from ._registry import get_global_func as get_global_func
from ._registry import list_global_func_names as list_global_func_names
from ._registry import register_global_func as register_global_func
from ._registry import remove_global_func as remove_global_func
from ._schema import Definition as Definition
from ._shape import Shape as Shape
from ._shape_program import make_answer as make_answer
from ._spec import TensorSpec as TensorSpec
from ._spec import check as check
from ._spec import checked_bytes as checked_bytes
from ._spec import checked_dtype as checked_dtype
from ._spec import checked_result as checked_result
from ._spec import empty as empty
from ._spec import like as like
from ._stream import use_stream as use_stream
from ._tensor import from_dlpack as from_dlpack
from ._tensor import register_tensor_viewer as register_tensor_viewer
from ._tracing import is_int64 as is_int64
from ._tracing import is_known as is_known
from ._tracing import register_tracer as register_tracer
from ._tracing import report_to_tracer as report_to_tracer


def __getattr__(name: str) -> _Any:
    """Import `graphffi.cpp`, which few programs need, when it is first used."""
    if name == "cpp":
        from importlib import import_module

        return import_module("graphffi.cpp")
    raise AttributeError(f"module 'graphffi' has no attribute {name!r}", name=name)


# Before any op is known: calls of functions can be traced, too.
when_imported("torch._dynamo", _prepare_for_tracing)

# SPDX-License-Identifier: Apache-2.0
"""Names that framework plugins need. They may change with any release, as the plugins do."""

from __future__ import annotations

from ._binding import BoundCall as BoundCall
from ._binding import flat as flat
from ._binding import per_tensor as per_tensor
from ._build_plugin import build_archive as build_archive
from ._conditions import UndecidedError as UndecidedError
from ._conditions import decidable as decidable
from ._definition import Definition as Definition
from ._definition import structure_of as structure_of
from ._derivatives import DerivativeRule as DerivativeRule
from ._describe import NUMBERS as NUMBERS
from ._describe import describe as describe
from ._describe import is_tensor as is_tensor
from ._error import FactoryError as FactoryError
from ._framework import Framework as Framework
from ._framework import register_framework as register_framework
from ._import_hook import when_imported as when_imported
from ._library import content_hash as content_hash
from ._library import split_reference as split_reference
from ._location import plugin_cache as plugin_cache
from ._location import torch_build as torch_build
from ._objects import object_of as object_of
from ._op_kernel import OWN_NAMES as OWN_NAMES
from ._op_kernel import OpKernel as OpKernel
from ._op_kernel import call_device as call_device
from ._package import PackagedLibraries as PackagedLibraries
from ._package import open_archive as open_archive
from ._package import packaged_name as packaged_name
from ._package import trusted_hashes as trusted_hashes
from ._parameter import MISSING as MISSING
from ._parameter import Attribute as Attribute
from ._parameter import Operand as Operand
from ._parameter import to_dtype as to_dtype
from ._plan import CallTraits as CallTraits
from ._plan import CanonicalCall as CanonicalCall
from ._plan import SideEffect as SideEffect
from ._raw_call import pack_call as pack_call
from ._shape_program import trace_shape_rule as trace_shape_rule
from ._spec import checked_bytes as checked_bytes
from ._spec import checked_dtype as checked_dtype
from ._spec import checked_result as checked_result
from ._spec import described as described
from ._tensor import numpy_dtype as numpy_dtype
from ._tensor import register_tensor_viewer as register_tensor_viewer
from ._toolchain import c_string as c_string
from ._tracing import Tracer as Tracer
from ._tracing import as_constant as as_constant
from ._tracing import is_int64 as is_int64
from ._tracing import is_known as is_known
from ._tracing import register_tracer as register_tracer
from ._tracing import report_to_tracer as report_to_tracer
from ._tracing import symbol_kind as symbol_kind
from ._tracing import traced_constants as traced_constants
from ._vmap import call_in_batch as call_in_batch

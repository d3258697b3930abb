# SPDX-License-Identifier: Apache-2.0
"""Names that plugins for compilers of torch's programs need. They may change with any release."""

from __future__ import annotations

from graphffi_torch._export.decompose import all_nodes as all_nodes
from graphffi_torch._export.functional import Functional as Functional
from graphffi_torch._export.functional import functional as functional
from graphffi_torch._export.functional import pure_operators as pure_operators
from graphffi_torch._export.sampled_sizes import sampled_sizes as sampled_sizes
from graphffi_torch._export.updates import input_memory as input_memory
from graphffi_torch._export.updates import updates_of_inputs as updates_of_inputs
from graphffi_torch._operators.choice import expression_of as expression_of
from graphffi_torch._operators.choice import run_rule as run_rule
from graphffi_torch._operators.choice import takes_sizes_for_granted as takes_sizes_for_granted
from graphffi_torch._operators.operator_schema import DIGEST as DIGEST
from graphffi_torch._operators.operator_schema import argument_names as argument_names
from graphffi_torch._operators.operator_schema import overload_of as overload_of
from graphffi_torch._operators.operator_table import registered_operators as registered_operators
from graphffi_torch._operators.primitive import PrimitiveCall as PrimitiveCall
from graphffi_torch._operators.same_tensor import memory_of as memory_of
from graphffi_torch._operators.specs import DTYPE_NAMES as DTYPE_NAMES

# SPDX-License-Identifier: Apache-2.0
"""Names that plugins which export torch's programs need; they may change with any release."""

from __future__ import annotations

from graphffi_torch._export.decompose import all_nodes as all_nodes
from graphffi_torch._export.functional import Functional as Functional
from graphffi_torch._export.functional import functional as functional
from graphffi_torch._export.functional import pure_operators as pure_operators
from graphffi_torch._export.sampled_sizes import sampled_sizes as sampled_sizes
from graphffi_torch._export.sizes_of_one import as_exported as as_exported
from graphffi_torch._operators.primitive import PrimitiveCall as PrimitiveCall
from graphffi_torch._operators.specs import DTYPE_NAMES as DTYPE_NAMES

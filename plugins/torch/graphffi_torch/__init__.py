# SPDX-License-Identifier: Apache-2.0
"""The PyTorch plugin of graphffi: ops and `tvm_ffi::call` as operators of torch.

Importing it makes `torch.ops.tvm_ffi.call` known and every `graphffi` op an operator of torch;
`graphffi` imports it by itself when it meets a torch tensor.
"""

from __future__ import annotations

from graphffi_torch import _library as _library

# isort: split
# From here on, the operators' library is loaded.
from graphffi_torch._framework import TorchFramework as TorchFramework
from graphffi_torch._framework import install as _install

_install()

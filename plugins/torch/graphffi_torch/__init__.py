# SPDX-License-Identifier: Apache-2.0
"""The PyTorch plugin of graphffi: ops and `tvm_ffi::call` as operators of torch.

Importing it makes `torch.ops.tvm_ffi.call` known and every `graphffi` op an operator of torch;
`graphffi` imports it by itself when it meets a torch tensor.
"""

from __future__ import annotations

from graphffi_torch._library import include_path as include_path
from graphffi_torch._library import library_path as library_path

# isort: split
# From here on, the operators' library is loaded.
from graphffi_torch._decompose import decompose as decompose
from graphffi_torch._errors import errors as errors
from graphffi_torch._framework import TorchFramework as TorchFramework
from graphffi_torch._framework import install as _install
from graphffi_torch._package import Package as Package
from graphffi_torch._package import load_package as load_package
from graphffi_torch._package import package as package
from graphffi_torch._standalone import to_library as to_library

__all__ = [
    "Package",
    "decompose",
    "errors",
    "include_path",
    "library_path",
    "load_package",
    "package",
    "to_library",
]

_install()

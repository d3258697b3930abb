# SPDX-License-Identifier: Apache-2.0
"""The PyTorch plugin of graphffi: ops and `tvm_ffi::call` as operators of torch.

Importing it makes `torch.ops.tvm_ffi.call` known and every `graphffi` op an operator of torch;
`graphffi` imports it by itself when it meets a torch tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from graphffi_torch._library import include_path as include_path
from graphffi_torch._library import library_path as library_path

# isort: split
# From here on, the operators' library is loaded.
from graphffi_torch._errors import errors as errors
from graphffi_torch._export.decompose import decompose as decompose
from graphffi_torch._export.package import Package as Package
from graphffi_torch._export.package import load_package as load_package
from graphffi_torch._export.package import package as package
from graphffi_torch._framework import install as _install

if _TYPE_CHECKING:
    from graphffi_torch._standalone.to_library import to_library as to_library

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


def __getattr__(name: str) -> _Any:
    """Import `to_library`, which needs sympy and few programs call, when it is first used."""
    if name == "to_library":
        from graphffi_torch._standalone.to_library import to_library

        return to_library
    raise AttributeError(f"module 'graphffi_torch' has no attribute {name!r}", name=name)


_install()

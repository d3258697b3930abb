# SPDX-License-Identifier: Apache-2.0
"""Where graphffi's own files are, for those who compile against them."""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def include_path() -> str:
    """Return the folder of the kernel-author headers, such as ``tvm/ffi/tvm_ffi.h``."""
    installed = os.path.join(_PACKAGE, "include")
    if os.path.isdir(installed):
        return installed
    return os.path.join(os.path.dirname(_PACKAGE), "csrc", "include")  # in a source tree

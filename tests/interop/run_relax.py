# SPDX-License-Identifier: Apache-2.0
"""Runs what export_relax.py wrote: ``run_relax.py LIBTVM_RUNTIME LIBRARY``.

Apache TVM's runtime links to C++ names of TVM FFI's, which graphffi's runtime must have.
"""

from __future__ import annotations

import ctypes
import os
import sys

import numpy as np

import graphffi

ctypes.CDLL(sys.argv[1], mode=os.RTLD_GLOBAL | os.RTLD_NOW)
executable = graphffi.load_module(sys.argv[2])
assert executable.kind == "relax.VMExecutable"
machine = executable["vm_load_executable"]()
machine["vm_initialization"](1, 0, 2)  # the CPU, its first device, a pool of memory
x = np.arange(5, dtype=np.float32)
result = machine["main"](graphffi.from_dlpack(x), graphffi.from_dlpack(np.full(1, 3, np.float32)))
np.testing.assert_array_equal(np.from_dlpack(result), 3 * x + 1)
try:
    machine["main"](graphffi.from_dlpack(x))
except Exception as error:
    print(type(error).__name__)

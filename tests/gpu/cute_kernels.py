# SPDX-License-Identifier: Apache-2.0
"""The kernel that docs/kernel_compilers.md compiles with CuTe DSL."""

# CuTe DSL reads annotations as objects, so that they cannot be postponed.
import cuda.bindings.driver as cuda
from cutlass import cute

_BLOCK = 256


@cute.kernel
def _add(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * _BLOCK + thread
    if i < cute.size(out):
        out[i] = a[i] + b[i]


@cute.jit
def add_kernel(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream):
    """out = a + b."""
    blocks = (cute.size(out) + _BLOCK - 1) // _BLOCK
    _add(a, b, out).launch(grid=[blocks, 1, 1], block=[_BLOCK, 1, 1], stream=stream)

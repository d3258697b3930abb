# SPDX-License-Identifier: Apache-2.0
"""The kernel that docs/kernel_compilers.md compiles with TileLang."""

# TileLang reads annotations as objects, so that they cannot be postponed.
from typing import Any

import tilelang.language as T

_BLOCK, _DEPTH = 64, 32


def make_matmul(m: int, n: int, k: int, dtype: str) -> Any:
    """out = a @ b; its name is that of the op."""

    @T.prim_func
    def matmul(
        a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), out: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(T.ceildiv(n, _BLOCK), T.ceildiv(m, _BLOCK), threads=128) as (x, y):
            left = T.alloc_shared((_BLOCK, _DEPTH), dtype)
            right = T.alloc_shared((_DEPTH, _BLOCK), dtype)
            total = T.alloc_fragment((_BLOCK, _BLOCK), "float32")
            T.clear(total)
            for i in T.Pipelined(T.ceildiv(k, _DEPTH), num_stages=2):
                T.copy(a[y * _BLOCK, i * _DEPTH], left)
                T.copy(b[i * _DEPTH, x * _BLOCK], right)
                T.gemm(left, right, total)
            T.copy(total, out[y * _BLOCK, x * _BLOCK])

    return matmul

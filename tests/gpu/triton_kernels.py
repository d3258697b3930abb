# SPDX-License-Identifier: Apache-2.0
"""The kernel that docs/kernel_compilers.md compiles with Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = 2 * x."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, 2 * tl.load(x + at, mask=inside), mask=inside)

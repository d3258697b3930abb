# SPDX-License-Identifier: Apache-2.0
"""Exports libraries with Apache TVM, in a process of its own: ``export_with_tvm.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class ScaleAdd:
    """out = alpha * x + 1, in float32."""

    @T.prim_func
    def scale_add(x: T.handle, out: T.handle, alpha: T.float32):
        T.func_attr({"global_symbol": "scale_add"})
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Out = T.match_buffer(out, (n,), "float32")
        for i in range(n):
            Out[i] = X[i] * alpha + T.float32(1)


@I.ir_module
class CallsBack:
    """out = 2 * x, after a call of the global function graphffi.tests.observe(n)."""

    @T.prim_func
    def calls_back(x: T.handle, out: T.handle):
        T.func_attr({"global_symbol": "calls_back"})
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Out = T.match_buffer(out, (n,), "float32")
        T.evaluate(T.call_packed("graphffi.tests.observe", n))
        for i in range(n):
            Out[i] = X[i] * T.float32(2)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for module, name in ((ScaleAdd, "scale_add"), (CallsBack, "calls_back")):
        tvm.compile(module, target="llvm").export_library(str(folder / f"{name}.so"))

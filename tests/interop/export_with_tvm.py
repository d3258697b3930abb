# SPDX-License-Identifier: Apache-2.0
"""Exports libraries with Apache TVM, in a process of its own.

``export_with_tvm.py FOLDER TABLE_MODULE``: where to, and the library of table_module.cc.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import tvm
import tvm_ffi
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


@I.ir_module
class Family:
    """Two functions of tensors with two dynamic dimensions."""

    @T.prim_func
    def scale_rows(x: T.handle, w: T.handle, out: T.handle):
        T.func_attr({"global_symbol": "scale_rows"})
        m = T.int64()
        n = T.int64()
        X = T.match_buffer(x, (m, n), "float32")
        W = T.match_buffer(w, (n,), "float32")
        Out = T.match_buffer(out, (m, n), "float32")
        for i, j in T.grid(m, n):
            Out[i, j] = X[i, j] * W[j]

    @T.prim_func
    def row_sum(x: T.handle, out: T.handle):
        T.func_attr({"global_symbol": "row_sum"})
        m = T.int64()
        n = T.int64()
        X = T.match_buffer(x, (m, n), "float32")
        Out = T.match_buffer(out, (m,), "float32")
        for i in range(m):
            Out[i] = T.float32(0)
            for j in range(n):
                Out[i] = Out[i] + X[i, j]


@I.ir_module
class AddsTable:
    """out[i] = x[i] + table_at(i), a function of an imported module that holds constants."""

    @T.prim_func
    def adds_table(x: T.handle, out: T.handle):
        T.func_attr({"global_symbol": "adds_table"})
        n = T.int64()
        X = T.match_buffer(x, (n,), "float64")
        Out = T.match_buffer(out, (n,), "float64")
        for i in range(n):
            Out[i] = X[i] + T.Cast("float64", T.call_packed("table_at", i))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for module, name in ((ScaleAdd, "scale_add"), (CallsBack, "calls_back"), (Family, "family")):
        tvm.compile(module, target="llvm").export_library(str(folder / f"{name}.so"))
    tables = tvm_ffi.load_module(sys.argv[2])
    with_table = tvm.compile(AddsTable, target="llvm")
    with_table.mod.import_module(tables.make_table(struct.pack("<4i", 5, -15, 25, 35)))
    with_table.export_library(str(folder / "adds_table.so"))

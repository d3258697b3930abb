# SPDX-License-Identifier: Apache-2.0
"""Exports a Relax program with Apache TVM, in a process of its own: ``export_relax.py LIBRARY``."""

from __future__ import annotations

import sys

import tvm
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Affine:
    """x * w + 1, in float32."""

    @R.function
    def main(x: R.Tensor(("n",), "float32"), w: R.Tensor((1,), "float32")) -> R.Tensor(
        ("n",), "float32"
    ):
        with R.dataflow():
            y = R.add(R.multiply(x, w), R.const(1, "float32"))
            R.output(y)
        return y


tvm.compile(Affine, target="llvm").export_library(sys.argv[1])

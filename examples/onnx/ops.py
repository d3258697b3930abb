# SPDX-License-Identifier: Apache-2.0
"""Three ops: one with an operand that may be absent, one that updates an operand, a plain one."""

from __future__ import annotations

from pathlib import Path

import graphffi
from graphffi import Tensor

_kernels = graphffi.load_module(
    graphffi.cpp.build("onnx_example", [Path(__file__).with_name("kernels.cc")])
)


@graphffi.op("onnx_example::norm", kernel=_kernels.norm, dims="rows [h], [h] -> rows [h]")
def norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Divides rows by the root of their mean square, and multiplies by `weight`."""
    return graphffi.like(x)


@graphffi.op(
    "onnx_example::accumulate",
    kernel=_kernels.accumulate,
    dims="[rows] [h], [h] ->",
    mutates=("total",),
)
def accumulate(x: Tensor, total: Tensor) -> None:
    """Adds the rows of `x` to `total`."""


@graphffi.op("onnx_example::gate", kernel=_kernels.gate)
def gate(x: Tensor) -> Tensor:
    """Gives x / (1 + exp(-x))."""
    return graphffi.like(x)

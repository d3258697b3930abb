# SPDX-License-Identifier: Apache-2.0
"""Two ops with factories: g++, Python functions and Apache TVM make their kernels.

Each of the factories is all that a library of kernels needs to serve NumPy, PyTorch and JAX.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

import graphffi
from graphffi import Tensor, cpp

SOURCE = Path(__file__).with_name("rms_norm.cc")
ELEMENTS = {"float32": "float", "float64": "double"}


@graphffi.op("jit_kernels::rms_norm", dims="... [h], [h] -> ... [h]", dtypes="T, T -> T")
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Divides rows by the root of their mean square."""
    return graphffi.like(x)


@rms_norm.add_factory(
    device="cpu",
    dtypes={"x": tuple(ELEMENTS)},
    key=lambda x, weight, eps: (x.dtype, x.shape[-1]),
    depends=[SOURCE],
)
def compiled(dtype: str, hidden: int) -> str:
    """C++ with the key as template arguments: the path of a library with one function."""
    flags = [f"-DELEMENT={ELEMENTS[dtype]}", f"-DHIDDEN={hidden}"]
    return cpp.build("rms_norm", [SOURCE], extra_cflags=flags)


@rms_norm.add_factory(device="cpu", key=lambda x, weight, eps: x.shape[-1])
def interpreted(hidden: int) -> Callable[..., None]:
    """For other data types: a Python function. Packages can't hold it."""

    def norm(x: Any, weight: Any, eps: float, out: Any) -> None:
        rows, scale, result = (np.from_dlpack(array) for array in (x, weight, out))
        wide = rows.astype("float32")
        mean = np.square(wide).sum(-1, keepdims=True) / hidden
        result[...] = wide / np.sqrt(mean + eps) * scale

    return norm


@graphffi.op("jit_kernels::scaled")
def scaled(x: Tensor) -> Tensor:
    """Multiplies by the number of columns."""
    return graphffi.like(x)


def tvm_version() -> str:
    """A new version of the compiler makes all kernels anew."""
    try:
        return metadata.version("apache-tvm")
    except metadata.PackageNotFoundError:
        return "none"


@scaled.add_factory(
    device="cpu", key=lambda x: (x.dtype, x.shape), depends=[f"TVM {tvm_version()}"]
)
def by_tvm(dtype: str, shape: tuple[int, ...]) -> str:
    """A loop of TVM's for the whole shape. It is imported where there is something to compile.

    Operands may begin anywhere: without `align`, TVM's code takes for granted that memory is
    aligned to 64 bytes.
    """
    tvm: Any = import_module("tvm")
    index = ", ".join(f"i{i}" for i in range(len(shape)))
    buffer = f'{shape}, "{dtype}", align={graphffi.dtype(dtype).itemsize}'
    text = f"""
@T.prim_func
def scaled(x_handle: T.handle, out_handle: T.handle):
    x = T.match_buffer(x_handle, {buffer})
    out = T.match_buffer(out_handle, {buffer})
    for {index} in T.grid({", ".join(map(str, shape))}):
        out[{index}] = x[{index}] * T.{dtype}({float(shape[-1])})
"""
    function = tvm.script.from_source(text, {"T": import_module("tvm.script.tirx")})
    function = function.with_attr("global_symbol", "scaled")
    path = f"{tempfile.mkdtemp()}/scaled.so"
    tvm.compile(tvm.IRModule({"scaled": function}), target="llvm").export_library(path)
    return path

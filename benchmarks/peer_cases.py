# SPDX-License-Identifier: Apache-2.0
"""Eager calls from PyTorch through other tools that bind kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import native
import torch
from timing import Case, Contender, call

import graphffi


def import_file(path: Path) -> ModuleType:
    """An extension module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library_impl(kernel: Any) -> Any:
    """An op that `torch.library.Library` defines, whose kernel is a Python function."""
    library = torch.library.Library("benchmark_library", "DEF")
    library.define("write(Tensor x, Tensor(a!) out) -> ()")
    library.impl("write", kernel, "CPU")
    return library, torch.ops.benchmark_library.write.default


def cases(library: Path) -> list[Case]:
    """An op that writes its operand."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    kernel = graphffi.load_module(str(library)).touch
    op = graphffi.define_op(
        "benchmark_peers::write", schema="(Tensor x, Tensor(a!) out) -> ()", kernel=kernel
    )
    torch.ops.load_library(str(native.torch_op("stable_op.cc")))
    kept, by_library = library_impl(kernel)
    contenders = {
        "graphffi op": op,
        "nanobind function": import_file(native.nanobind_function()).write,
        "pybind11 function of torch tensors": import_file(native.pybind11_function()).write,
        "op on torch's stable ABI": torch.ops.benchmark_stable.write.default,
        "Library.define and impl, in Python": by_library,
    }
    names = {"x": torch.ones(16), "out": torch.empty(16), "kept": kept}
    measured = [
        Contender(name, call("f(x, out)", {**names, "f": f})) for name, f in contenders.items()
    ]
    return [Case("torch eager: an operand is written, other bindings", measured)]

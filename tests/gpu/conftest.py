# SPDX-License-Identifier: Apache-2.0
"""Tests on a GPU: skipped where there is none, or no nvcc to compile their kernels."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import graphffi
from graphffi import Tensor

HERE = Path(__file__).resolve().parent
# JAX would take most of the GPU's memory when it starts, and torch is tested in the same process.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def query_gpu() -> str:
    """The first GPU and its driver; "none" where there is no driver."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "none"
    name, driver = listed.splitlines()[0].split(", ")
    return f"{name}, driver {driver}"


def list_packages() -> str:
    """The versions that the tests run with."""
    found = [f"Python {platform.python_version()}"]
    for name in ("torch", "triton", "jax", "cupy-cuda13x"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


@pytest.fixture(scope="session", autouse=True)
def _machine(record_testsuite_property: Callable[[str, object], None]) -> None:
    """Says in the result file where the tests ran: tests/gpu_table.py reads it."""
    record_testsuite_property("gpu", query_gpu())
    record_testsuite_property("packages", list_packages())
    record_testsuite_property("runtime", graphffi.runtime_info().kind)


@pytest.fixture(scope="session")
def library() -> str:
    """The path of the compiled kernels."""
    if not os.environ.get("NVCC") and shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    return graphffi.cpp.build("gpu_kernels", sources=[HERE / "kernels.cu"])


@pytest.fixture(scope="session")
def ops(library: str) -> SimpleNamespace:
    """Ops of the kernels, for both frameworks."""

    @graphffi.op(
        "gpu::scale",
        kernel=f"{library}::scale",
        plan="x, out, factor",
        allow_cuda_graph=True,
        vmap="broadcast",
    )
    def scale(x: Tensor, factor: float = 2.0) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("gpu::scale_twice", kernel=f"{library}::scale_twice", plan="x, out, factor")
    def scale_twice(x: Tensor, factor: float = 2.0) -> Tensor:
        return graphffi.like(x)

    @graphffi.op(
        "gpu::scale_through",
        kernel=f"{library}::scale_through",
        plan="x, workspace, out, factor",
        workspace=1 << 16,
        allow_cuda_graph=True,
    )
    def scale_through(x: Tensor, factor: float = 2.0) -> Tensor:
        return graphffi.like(x)

    @graphffi.op(
        "gpu::allocates_in_graph",
        kernel=f"{library}::scale_twice",
        plan="x, out, factor",
        allow_cuda_graph=True,
    )
    def allocates_in_graph(x: Tensor, factor: float = 2.0) -> Tensor:
        return graphffi.like(x)

    @graphffi.op(
        "gpu::allocates_what_it_declares",
        kernel=f"{library}::scale_twice",
        plan="x, out, factor",
        workspace=lambda x, factor: x.numel * x.dtype.itemsize,
        allow_cuda_graph=True,
    )
    def allocates_what_it_declares(x: Tensor, factor: float = 2.0) -> Tensor:
        return graphffi.like(x)

    @graphffi.op(
        "gpu::declares_too_little",
        kernel=f"{library}::scale_twice",
        plan="x, out, factor",
        workspace=100,
    )
    def declares_too_little(x: Tensor, factor: float = 2.0) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("gpu::late_fill", kernel=f"{library}::late_fill", plan="x, out, value, cycles")
    def late_fill(x: Tensor, value: float, cycles: int = 50_000_000) -> Tensor:
        return graphffi.like(x)

    return SimpleNamespace(
        scale=scale,
        scale_twice=scale_twice,
        scale_through=scale_through,
        allocates_in_graph=allocates_in_graph,
        allocates_what_it_declares=allocates_what_it_declares,
        declares_too_little=declares_too_little,
        late_fill=late_fill,
    )

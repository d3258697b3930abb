# SPDX-License-Identifier: Apache-2.0
"""The kernels of these tests, and the frameworks that the tests run with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import graphffi

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def kernels_path() -> str:
    return graphffi.cpp.build("core_kernels", [HERE / "kernels.cc"], extra_cflags=["-O1"])


@pytest.fixture(scope="session")
def kernels(kernels_path: str) -> graphffi.Module:
    return graphffi.load_module(kernels_path)


@dataclass(frozen=True)
class Arrays:
    """A framework, as tests see it: how to make an array, and its type."""

    name: str
    make: Callable[[Any], Any]
    kind: type


def numpy_arrays() -> Arrays:
    numpy = pytest.importorskip("numpy")
    return Arrays("numpy", lambda values: numpy.asarray(values, dtype="float32"), numpy.ndarray)


def torch_arrays() -> Arrays:
    torch = pytest.importorskip("torch")
    return Arrays("torch", lambda values: torch.tensor(values, dtype=torch.float32), torch.Tensor)


def jax_arrays() -> Arrays:
    jax = pytest.importorskip("jax")
    return Arrays("jax", lambda values: jax.numpy.asarray(values, dtype="float32"), jax.Array)


@pytest.fixture(params=[numpy_arrays, torch_arrays, jax_arrays], ids=["numpy", "torch", "jax"])
def arrays(request: pytest.FixtureRequest) -> Iterator[Arrays]:
    yield request.param()
    # Dynamo counts the functions of all tests that share their code, and compiles eight of them.
    if "torch._dynamo" in sys.modules:
        sys.modules["torch"].compiler.reset()


@pytest.fixture
def run_python() -> Callable[..., tuple[int, str]]:
    """Run code in a fresh interpreter: its status and all that it printed."""
    import os
    import subprocess

    def run(code: str, **environment: str) -> tuple[int, str]:
        clean = {k: v for k, v in os.environ.items() if k != "GRAPHFFI_RUNTIME"}
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={**clean, **environment},
            capture_output=True,
            text=True,
        )
        return result.returncode, result.stdout + result.stderr

    return run


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of kernels that is empty."""
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"

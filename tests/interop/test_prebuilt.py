# SPDX-License-Identifier: Apache-2.0
"""Libraries that were built without graphffi run under it: called, compiled and jitted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphffi


@pytest.fixture
def scale_add(scale_add_library: Path) -> graphffi.Function:
    return graphffi.load_module(scale_add_library).scale_add


@pytest.fixture
def scale_add_op(scale_add: graphffi.Function, scale_add_library: Path) -> graphffi.Op:
    name = f"{scale_add_library.parent.name}_{scale_add_library.stem}"
    return graphffi.define_op(
        f"prebuilt::{name}",
        schema="(Tensor x, float alpha) -> Tensor out",
        kernel=scale_add,
        plan="x, out, alpha",
        infer=lambda x, alpha: graphffi.like(x),
    )


def test_libraries_link_what_they_should(scale_add_library: Path) -> None:
    command = ["readelf", "--dynamic", str(scale_add_library)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ("libtvm_ffi.so" in text) == (scale_add_library.stem == "apache_headers")


def test_function_takes_numpy(scale_add: graphffi.Function) -> None:
    x, out = np.arange(5, dtype=np.float32), np.empty(5, np.float32)
    scale_add(x, out, 2.5)
    np.testing.assert_array_equal(out, x * 2.5 + 1)


def test_op_takes_numpy(scale_add_op: graphffi.Op) -> None:
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(scale_add_op(x, 2.5), x * 2.5 + 1)


@pytest.mark.needs("torch")
def test_function_takes_torch(scale_add: graphffi.Function) -> None:
    import torch

    x, out = torch.arange(5.0), torch.empty(5)
    scale_add(x, out, 2.5)
    torch.testing.assert_close(out, x * 2.5 + 1)


@pytest.mark.needs("torch")
def test_op_runs_under_torch_compile(scale_add_op: graphffi.Op) -> None:
    import torch

    @torch.compile(fullgraph=True, dynamic=True)
    def model(x: torch.Tensor) -> torch.Tensor:
        return scale_add_op(x * 3, 2.5) + x

    for n in (5, 12):
        x = torch.arange(float(n))
        torch.testing.assert_close(model(x), x * 3 * 2.5 + 1 + x)


@pytest.mark.needs("jax", "jaxlib")
def test_op_runs_under_jax_jit(scale_add_op: graphffi.Op) -> None:
    import jax
    import jax.numpy as jnp

    model = jax.jit(lambda x: scale_add_op(x * 3, 2.5) + x)
    x = jnp.arange(5, dtype=jnp.float32)
    np.testing.assert_allclose(model(x), x * 3 * 2.5 + 1 + x, rtol=1e-6)


def test_errors_of_the_kernel_arrive(scale_add: graphffi.Function) -> None:
    x, out = np.arange(5, dtype=np.float32), np.empty(5, np.float32)
    with pytest.raises(TypeError, match=r"scale_add"):
        scale_add(x.astype(np.float64), out, 2.5)
    with pytest.raises(ValueError, match=r"scale_add"):
        scale_add(x, out[:3].copy(), 2.5)
    scale_add(x, out, 2.5)
    np.testing.assert_array_equal(out, x * 2.5 + 1)


def test_exported_library_calls_functions_of_the_process(tvm_exports: Path) -> None:
    seen: list[int] = []
    graphffi.register_global_func("graphffi.tests.observe", seen.append, override=True)
    x, out = np.arange(5, dtype=np.float32), np.empty(5, np.float32)
    graphffi.load_module(tvm_exports / "calls_back.so").calls_back(x, out)
    assert seen == [5]
    np.testing.assert_array_equal(out, x * 2)

# SPDX-License-Identifier: Apache-2.0
"""Ops whose kernels are compiled for the shapes of calls."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
import pytest
import torch
from torch._inductor.utils import run_and_get_code

import graphffi
import graphffi_jax
import graphffi_torch
from examples.jit_kernels.ops import rms_norm

ROOT = Path(__file__).resolve().parents[2]


def expected(x: Any, weight: Any) -> Any:
    wide = x.astype("float64")
    return wide / np.sqrt(np.square(wide).mean(-1, keepdims=True) + 1e-6) * weight


def arrays(dtype: str, *shape: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return tuple(random.standard_normal(s).astype(dtype) for s in (shape, shape[-1:]))


def norm(x: Any, weight: Any) -> Any:
    return rms_norm(x, weight)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_each_data_type_and_width_has_its_kernel(dtype: str) -> None:
    tolerance = {"float16": 2e-3}.get(dtype, 1e-5)
    shapes = ((4, 8), (2, 3, 8), (5, 12))
    for shape in shapes[: 2 if dtype == "float64" else 3]:  # compiling takes seconds
        x, weight = arrays(dtype, *shape)
        given = torch.from_numpy(x), torch.from_numpy(weight)
        for got in (norm(x, weight), norm(*given), norm(*given)):
            np.testing.assert_allclose(got, expected(x, weight), tolerance, tolerance)


def test_graphs_name_the_library_of_their_width() -> None:
    torch.compiler.reset()
    compiled = torch.compile(norm, fullgraph=True, dynamic=True)
    named = []
    for width in (8, 12):
        given = [torch.from_numpy(a) for a in arrays("float32", 4, width)]
        result, code = run_and_get_code(compiled, *given)
        np.testing.assert_allclose(result, norm(*given))
        named.append(set(re.findall(r"'(/[^']*rms_norm\.so::rms_norm)'", "".join(code))))
        text = jax.jit(norm).lower(*map(jax.numpy.asarray, map(np.asarray, given))).as_text()
        assert set(re.findall(r"kernel (/[^\\]*rms_norm\.so::rms_norm)", text)) == named[-1]
    assert len(named[0]) == len(named[1]) == 1
    assert named[0] != named[1]


def test_packages_of_jax_carry_what_was_made(tmp_path: Path) -> None:
    given = arrays("float32", 4, 8)
    checks = graphffi_jax.export_checks()
    program = jax.export.export(jax.jit(norm), disabled_checks=checks)(*given)
    path = graphffi_jax.package(program, tmp_path / "norm.zip")
    with zipfile.ZipFile(path) as package:
        assert any("graphffi/rms_norm-" in name for name in package.namelist())
    loaded = graphffi_jax.load_package(path, trust=True)
    np.testing.assert_allclose(loaded.call(*given), expected(*given), 1e-5, 1e-5)


class Norm(torch.nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> Any:
        return rms_norm(x, weight)


@pytest.mark.slow
def test_packages_of_torch_carry_what_was_made(tmp_path: Path) -> None:
    given = tuple(torch.from_numpy(a) for a in arrays("float32", 4, 8))
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Norm(), given, dynamic_shapes=({0: rows}, {}))
    path = graphffi_torch.package(program, tmp_path / "norm.pt2")
    with zipfile.ZipFile(path) as package:
        assert any("graphffi/rms_norm-" in name for name in package.namelist())
    loaded = graphffi_torch.load_package(path, trust=True)
    np.testing.assert_allclose(loaded(*given), norm(*given))


def test_functions_that_a_factory_made_are_not_packaged(tmp_path: Path) -> None:
    given = arrays("float16", 4, 8)
    text = "expected kernels of libraries, got the function 'graphffi.kernel.jit_kernels.rms_norm"
    checks = graphffi_jax.export_checks()
    program = jax.export.export(jax.jit(norm), disabled_checks=checks)(*given)
    with pytest.raises(ValueError, match=text):
        graphffi_jax.package(program, tmp_path / "norm.zip")
    exported = torch.export.export(Norm(), tuple(map(torch.from_numpy, given)))
    with pytest.raises(ValueError, match=text):
        graphffi_torch.package(exported, tmp_path / "norm.pt2")


CALLS = """
import numpy as np
from examples.jit_kernels.ops import rms_norm
given = [(np.ones((2, n), "float32"), np.ones(n, "float32")) for n in (8, 12)]
print([float(rms_norm(*one)[0, 0].round(3)) for one in given])
"""


def run_with_grid(grid: Path, *prefix: str, **environment: str) -> None:
    """Calls the op in another process that has its kernels, and no cache."""
    graphffi.prebuild(rms_norm, [("float32", n) for n in (8, 12)], grid, factory="cpu.compiled")
    given = {"GRAPHFFI_PREBUILT": str(grid), "GRAPHFFI_CACHE_DIR": str(grid / "cache")}
    run = subprocess.run(
        [*prefix, sys.executable, "-c", CALLS],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | given | environment,
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "[1.0, 1.0]", run.stderr


def test_a_process_with_a_grid_needs_no_compiler(tmp_path: Path) -> None:
    run_with_grid(tmp_path, PATH="/none", CXX="/none", CC="/none")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_process_with_a_grid_starts_no_compiler(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run_with_grid(tmp_path / "grid", "strace", "-f", "-e", "trace=execve", "-o", str(log))
    started = re.findall(r'execve\("([^"]*)"', log.read_text())
    assert started
    assert [program for program in started if not Path(program).name.startswith("python")] == []


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tvm") is None, reason="apache-tvm is not installed")
def test_tvm_makes_kernels_for_every_framework(tmp_path: Path) -> None:
    def run(*arguments: str, **environment: str) -> Any:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name(NAME)), *arguments]
        inherited = {k: v for k, v in os.environ.items() if k != "GRAPHFFI_RUNTIME"}
        folders = {"PYTHONPATH": str(ROOT), "GRAPHFFI_CACHE_DIR": str(tmp_path / "cache")}
        result = subprocess.run(
            command, env=inherited | folders | environment, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    grid = str(tmp_path / "grid")
    assert run(grid) == {"values": [3.0], "made": 1, "tvm": True}
    found = {"values": [3.0], "made": 1, "tvm": False}  # in the cache, or the grid
    assert run() == found
    assert run(GRAPHFFI_PREBUILT=grid, GRAPHFFI_CACHE_DIR=str(tmp_path / "other")) == found


NAME = "call_jit_kernels.py"

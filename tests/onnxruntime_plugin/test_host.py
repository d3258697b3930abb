# SPDX-License-Identifier: Apache-2.0
"""Models in a C program, without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphffi
import graphffi_onnxruntime
from graphffi.plugin import packaged_name
from graphffi_onnxruntime._node_text import ops_text
from tests.onnxruntime_plugin.models import model_of, node_of, session_of

HERE = Path(__file__).parent
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def scale(library: str) -> graphffi.Op:
    return graphffi.define_op(
        "onnx_host::scale",
        schema="(Tensor x, Tensor? bias=None, float factor=2.0) -> Tensor out",
        kernel=f"{library}::scale",
        infer=lambda x, bias, factor: graphffi.like(x),
    )


@pytest.fixture
def folder(scale: graphffi.Op, library: str, tmp_path: Path) -> Path:
    """A model, the list of its ops and its kernels, as an export leaves them."""
    node, tensors, outputs = node_of(scale, X)
    model = model_of([node], tensors, outputs)
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "model.onnx.ops").write_text(ops_text([scale.definition]))
    shutil.copy(library, tmp_path / packaged_name(f"{library}::scale"))
    return tmp_path


def build_host(folder: Path) -> None:
    """Puts the program, and the libraries that it needs, into the folder."""
    compiler = os.environ.get("CC") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    found = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.1.*")
    shutil.copy(next(found), folder / "libonnxruntime.so.1")
    shutil.copy(graphffi_onnxruntime.library_path(), folder)
    bundled = Path(graphffi.__file__).parent / "_lib" / "libtvm_ffi.so"
    shutil.copy(bundled, folder)
    command = [compiler, "-std=c11", "-D_GNU_SOURCE", str(HERE / "host.c"), "-o", "host"]
    link = ["libonnxruntime.so.1", "-Wl,-rpath,$ORIGIN"]
    subprocess.run([*command, *link], cwd=folder, check=True, timeout=300)


def run_host(folder: Path, *args: str) -> list[str]:
    done = subprocess.run(
        ["env", "-i", "./host", *args], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_model_is_loaded_with_the_list_beside_it(folder: Path) -> None:
    session = session_of(str(folder / "model.onnx"), folder / "model.onnx")
    np.testing.assert_array_equal(session.run(None, {"t0": X})[0], 2 * X)


def test_another_version_of_a_library_is_refused(
    folder: Path, library: str, scale: graphffi.Op
) -> None:
    name = packaged_name(f"{library}::scale")
    with open(folder / name, "ab") as file:
        file.write(b"another version")
    with pytest.raises(Exception, match="expected the library of the export, onnxruntime_kernels-"):
        session_of(str(folder / "model.onnx"), folder / "model.onnx")


def test_a_c_program_runs_a_model(folder: Path) -> None:
    build_host(folder)
    library = folder / "libgraphffi_onnxruntime.so"
    lines = run_host(folder, str(library), "model.onnx.ops", "model.onnx")
    assert lines[:6] == ["2", "4", "6", "8", "10", "12"]
    mapped = " ".join(lines[6:])
    assert "libtvm_ffi.so" in mapped
    assert "python" not in mapped
    assert "torch" not in mapped


def test_a_kernel_library_registers_its_ops_itself(folder: Path, tmp_path: Path) -> None:
    library = graphffi.cpp.build(
        "own_ops",
        sources=[str(HERE / "kernels.cc"), str(HERE / "own_ops.cc")],
        extra_ldflags=["-Wl,-rpath,$ORIGIN"],
    )
    op = graphffi.define_op(
        "onnx_own::scale",
        schema="(Tensor x, Tensor? bias=None, float factor=2.0) -> Tensor out",
        kernel=f"{library}::scale",
        infer=lambda x, bias, factor: graphffi.like(x),
    )
    node, tensors, outputs = node_of(op, X)
    onnx.save(model_of([node], tensors, outputs), folder / "own.onnx")
    build_host(folder)
    shutil.copy(library, folder / "own_ops.so")
    lines = run_host(folder, str(folder / "own_ops.so"), "-", "own.onnx")
    assert lines[:6] == ["2", "4", "6", "8", "10", "12"]
    assert not any("python" in line or "torch" in line for line in lines)


def test_a_host_without_a_list_is_told_where_one_belongs(scale: graphffi.Op) -> None:
    options: Any = onnxruntime.SessionOptions()
    with pytest.raises(Exception, match=r"graphffi: expected a list of ops in the entry 'graphffi"):
        options.register_custom_ops_library(graphffi_onnxruntime.library_path())

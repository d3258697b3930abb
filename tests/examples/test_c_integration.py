# SPDX-License-Identifier: Apache-2.0
"""The example in C: compiled strictly, run without Python, and its kernels called from Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi

FOLDER = Path(__file__).parents[2] / "examples" / "c_integration"
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]


def compile_c(source: str, output: Path, *flags: str) -> Path:
    command = ["cc", *FLAGS, f"-I{graphffi.cpp.include_path()}", str(FOLDER / source)]
    subprocess.run([*command, "-o", str(output), *flags], check=True)
    return output


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c_integration")
    return compile_c("kernels.c", folder / "kernels.so", "-shared", "-fPIC")


@pytest.fixture
def kernels(library: Path) -> Any:
    return graphffi.load_module(library)


def test_program_in_c_runs_the_kernels(library: Path) -> None:
    runtime = Path(graphffi.runtime_info().path)
    program = compile_c("host.c", library.parent / "host", str(runtime))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(runtime.parent)}
    result = subprocess.run(
        [str(program), str(library)], env=environment, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "0 2.5 5 7.5",
        "ValueError: scale: operand 'out': expected 4 elements, got 3",
    ]
    missing = subprocess.run(
        [str(program), "missing.so"], env=environment, capture_output=True, text=True
    )
    assert missing.returncode == 1
    assert "missing.so" in missing.stdout


def test_kernel_takes_views_and_objects(kernels: Any) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    kernels.scale(x, 2, out[::2])
    assert out.tolist() == [0, 0, 2, 0, 4, 0, 6, 0]
    kernels.scale(graphffi.from_dlpack(x), 0.5, graphffi.from_dlpack(out[:4]))
    assert out[:4].tolist() == [0, 0.5, 1, 1.5]


def test_op_of_a_kernel_in_c(kernels: Any) -> None:
    op = graphffi.define_op(
        "c_integration::scale",
        schema="(Tensor x, float factor) -> Tensor out",
        kernel=kernels.scale,
        plan="x, factor, out",
        infer=lambda x, factor: graphffi.like(x),
    )
    assert op(np.arange(3, dtype=np.float32), 3.0).tolist() == [0, 3, 6]


def test_errors_of_a_kernel_in_c(kernels: Any) -> None:
    x, out = np.zeros(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(TypeError, match=r"scale: expected 3 arguments: x, factor, out"):
        kernels.scale(x)
    with pytest.raises(TypeError, match=r"scale: operand 'x': expected a float32 vector on cpu"):
        kernels.scale(x.astype(np.float64), 1.0, out)
    with pytest.raises(TypeError, match=r"scale: operand 'factor': expected a number"):
        kernels.scale(x, "2", out)
    with pytest.raises(ValueError, match=r"operand 'out': expected 4 elements, got 2"):
        kernels.scale(x, 1.0, out[:2])


def test_stream_of_the_env_is_read(kernels: Any) -> None:
    with graphffi.use_stream("cuda:1", 0x77):
        streams = [kernels.stream(graphffi.Device(f"cuda:{index}")) for index in (0, 1)]
    assert [as_number(stream) for stream in streams] == [0, 0x77]
    assert as_number(kernels.stream(np.zeros(1, np.float32))) == 0


def as_number(pointer: Any) -> int:
    return int(getattr(pointer, "value", pointer) or 0)


def test_function_of_the_process_is_called(kernels: Any) -> None:
    with pytest.raises(RuntimeError, match=r"observe: no function c_integration.observe"):
        kernels.observe(1)

    @graphffi.register_global_func("c_integration.observe")
    def observe(value: int) -> int:
        if value < 0:
            raise ValueError("negative")
        return value + 1

    assert [kernels.observe(n) for n in (1, 2)] == [2, 3]
    with pytest.raises(ValueError, match=r"^negative$"):
        kernels.observe(-1)
    graphffi.remove_global_func("c_integration.observe")
    assert kernels.observe(3) == 4  # looked up once

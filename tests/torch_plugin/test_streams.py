# SPDX-License-Identifier: Apache-2.0
"""An accelerator's current streams are the env's during a call, on a backend with fake ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
def test_streams_of_a_backend_of_ones_own(tmp_path: Path) -> None:
    root = Path(torch.__file__).parent
    if "native_handle" not in (root / "include/c10/core/Stream.h").read_text():
        pytest.skip(f"torch {torch.__version__} gives no streams of other backends than CUDA")
    library = tmp_path / "fake_backend.so"
    newer = "C++20 or later" in (root / "include/ATen/ATen.h").read_text()
    command = [
        "g++",
        "-std=c++20" if newer else "-std=c++17",
        "-O0",
        "-fPIC",
        "-shared",
        str(HERE / "fake_backend.cc"),
    ]
    command += [f"-isystem{root}/include", f"-L{root}/lib", "-ltorch_cpu", "-lc10"]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    subprocess.run([*command, "-o", str(library)], check=True)
    # A process of its own: a backend stays registered.
    program = HERE / "fake_streams.py"
    result = subprocess.run(
        [sys.executable, str(program), str(library)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split() == re.findall(r"^def (test_\w+)", program.read_text(), re.M)

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
ROOT = Path(torch.__file__).parent

ALLOCATES = """
import ctypes, sys
import graphffi, graphffi_torch
backend = ctypes.CDLL(sys.argv[1])
SOURCE = '''
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>
void allocate(int32_t device) {
  tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, tvm::ffi::Shape({3}),
                                 DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCUDA, device});
}
'''
kernels = graphffi.cpp.load_inline("allocates", cpp_sources=SOURCE, functions=["allocate"])
def stream_of(handle, current, device=1):
    backend.fake_set_stream(device, current)
    with graphffi.use_stream(f"cuda:{device}", handle):
        kernels.allocate(device)
    assert backend.fake_current_stream(device) == current
    return backend.fake_allocated_for()
print(stream_of(0x2005, 0), stream_of(0x2005, 7), stream_of(0x2007, 7), stream_of(0, 7))
print(stream_of(0x1003, 4, 0), backend.fake_current_device())
"""


def _build(path: Path, *flags: str) -> str:
    """The path of the library with the backend."""
    newer = "C++20 or later" in (ROOT / "include/ATen/ATen.h").read_text()
    standard = "-std=c++20" if newer else "-std=c++17"
    command = ["g++", standard, "-O0", "-fPIC", "-shared", str(HERE / "fake_backend.cc"), *flags]
    command += [f"-isystem{ROOT}/include", f"-L{ROOT}/lib", "-ltorch_cpu", "-lc10"]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    subprocess.run([*command, "-o", str(path)], check=True)
    return str(path)


@pytest.mark.slow
def test_streams_of_a_backend_of_ones_own(tmp_path: Path) -> None:
    if "native_handle" not in (ROOT / "include/c10/core/Stream.h").read_text():
        pytest.skip(f"torch {torch.__version__} gives no streams of other backends than CUDA")
    library = _build(tmp_path / "fake_backend.so")
    # A process of its own: a backend stays registered.
    program = HERE / "fake_streams.py"
    result = subprocess.run([sys.executable, str(program), library], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split() == re.findall(r"^def (test_\w+)", program.read_text(), re.M)


@pytest.mark.slow
@pytest.mark.skipif(torch.version.cuda is not None, reason="torch has CUDA of its own")
def test_memory_is_allocated_for_the_stream_that_kernels_are_on(tmp_path: Path) -> None:
    """Torch would give it to others on its current stream, while kernels still use it."""
    name = "libtorch_cuda.so"
    library = _build(tmp_path / name, "-DFAKE_TYPE=CUDA", f"-Wl,-soname,{name}")
    command = [sys.executable, "-c", ALLOCATES, library]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines() == ["5 5 7 0", "3 0"]

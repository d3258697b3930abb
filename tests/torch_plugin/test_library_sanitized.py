# SPDX-License-Identifier: Apache-2.0
"""A small graph's library, with what it links, in two threads; `make sanitize` uses sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from toolchain import ROOT, SANITIZE, Toolchain

import graphffi
import graphffi_torch
from graphffi import Tensor
from graphffi_torch._standalone import build as _standalone_build
from graphffi_torch._standalone.externs import FOLDER, TORCH_INCLUDE

pytestmark = [
    pytest.mark.skipif(not SANITIZE, reason="needs what `make sanitize` builds"),
]
SHIM = ROOT / "plugins/torch/csrc/standalone"
TRITON = Path(sys.prefix) / "triton"
FRAME = ROOT / f"build/sanitize/{SANITIZE}/csrc/call/libgraphffi_call.a"


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = doubled(x)
        return {"product": self.linear(y), "sums": y + 2 // x.int()}


@graphffi.op("sanitized::double", kernel="sanitized.double", plan="x, out")
def doubled(x: Tensor) -> Tensor:
    return graphffi.like(x)


def compile_shim(toolchain: Toolchain) -> Path:
    """What libraries link, with the sanitizers of this run."""
    folders = (f"-I{ROOT}/csrc", f"-I{SHIM}", f"-I{SHIM}/../include")
    flags = (*folders, f"-isystem{TORCH_INCLUDE}", "-fPIC", "-std=c++20", "-DUSE_CUDA")
    sources = [
        *sorted(SHIM.glob("*.cc")),
        *sorted(SHIM.glob("cuda/*.cc")),
        ROOT / "csrc/modules/cuda_driver.cc",
    ]
    return toolchain.unit(sources, flags=(*flags, "-fvisibility=hidden"))


@contextmanager
def sanitized(folder: Path) -> Iterator[None]:
    """Libraries are made with the sanitizers of this run."""
    shim = compile_shim(Toolchain(folder))
    compiler = _standalone_build._Compiler
    make, run = compiler.__init__, _standalone_build.run
    sanitizer = f"-fsanitize={SANITIZE}"
    replaced = {
        "-s": ["-g1"],
        "-Wl,--no-undefined": [],
        f"{FOLDER}/libgraphffi_standalone.a": [str(shim), str(FRAME)],
    }

    def make_with_sanitizer(self: Any, *arguments: Any) -> None:
        make(self, *arguments)
        # Not of undefined behaviour: kernels would take three times as long to compile.
        self._flags += ["-O0", "-g1", sanitizer]

    def run_with_sanitizer(command: Sequence[str]) -> str:
        if "-shared" not in command:
            assert "-c" not in command or sanitizer in command
            return run(command)
        given = [each for part in command for each in replaced.get(part, [part])]
        return run([*given, sanitizer])

    with (
        mock.patch.object(compiler, "__init__", make_with_sanitizer),
        mock.patch.object(_standalone_build, "run", run_with_sanitizer),
    ):
        yield


@pytest.fixture
def library(tmp_path: Path) -> Path:
    graphffi.register_global_func("sanitized.double", lambda x, y: None, override=True)
    rows = torch.export.Dim("rows", max=8)
    with torch.no_grad():
        exported = torch.export.export(Model(), (torch.rand(3, 4),), dynamic_shapes=({0: rows},))
    path = tmp_path / "model.so"
    with sanitized(tmp_path):
        graphffi_torch.to_library(exported, path, weights="file")
    return path


def test_two_threads_call_a_graph(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sanitizers know nothing of what libgomp's threads wait for.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    toolchain = Toolchain(tmp_path)
    host = toolchain.program(Path(__file__).with_name("library_host.cc"), flags=("-ldl",))
    toolchain.run(host, os.fspath(library), runtime="bundled")


MAKE_ON_CUDA = """
import sys
from pathlib import Path
import cuda_without_gpu
from test_library_sanitized import sanitized
folder = Path(sys.argv[1])
cuda_without_gpu.pretend()
with sanitized(folder):
    cuda_without_gpu.build("layers", folder)
"""


def test_two_threads_call_a_graph_on_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not TRITON.is_dir() or not torch.__version__.startswith("2.13."):
        pytest.skip("needs Triton, and torch 2.13: make .venv/triton.stamp")
    here = Path(__file__).parent
    driver = tmp_path / "libcuda.so.1"
    source = here.parent / "core/fake_cuda_driver.c"
    subprocess.run(["cc", "-std=c11", "-shared", "-fPIC", str(source), "-o", driver], check=True)
    folders = [str(folder) for folder in (TRITON, here, here.parent / "abi")]
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MAKE_ON_CUDA, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    monkeypatch.setenv("GRAPHFFI_LIBCUDA", str(driver))
    toolchain = Toolchain(tmp_path)
    host = toolchain.program(here / "library_host_cuda.cc", flags=("-ldl",))
    toolchain.run(host, os.fspath(tmp_path / "layers.so"), str(driver), runtime="bundled")

# SPDX-License-Identifier: Apache-2.0
"""A small graph's library, with what it links, in two threads; `make sanitize` uses sanitizers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from toolchain import ROOT, SANITIZE, Toolchain

import graphffi
import graphffi_torch
from graphffi import Tensor
from graphffi_torch import _standalone_build
from graphffi_torch._standalone_externs import FOLDER, TORCH_INCLUDE

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.skipif(not SANITIZE, reason="needs what `make sanitize` builds"),
]
SHIM = ROOT / "plugins/torch/csrc/standalone"
FRAME = ROOT / f"build/sanitize/{SANITIZE}/csrc/callframe/libgraphffi_callframe.a"


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
    flags = (*folders, f"-isystem{TORCH_INCLUDE}", "-fPIC", "-std=c++20")
    return toolchain.unit(sorted(SHIM.glob("*.cc")), flags=(*flags, "-fvisibility=hidden"))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shim = compile_shim(Toolchain(tmp_path))
    compiler = _standalone_build._Compiler

    def run_with_sanitizer(self: Any, arguments: Sequence[str], target: Path) -> None:
        replaced = {
            "-O3": ["-O1"],
            "-s": ["-g"],
            "-Wl,--no-undefined": [],
            f"{FOLDER}/libgraphffi_standalone.a": [str(shim), str(FRAME)],
        }
        given = [each for a in arguments for each in replaced.get(a, [a])]
        # Not of undefined behaviour: kernels would take three times as long to compile.
        self._run_for_text([*given, f"-fsanitize={SANITIZE}", "-o", str(target)])

    monkeypatch.setattr(compiler, "_run", run_with_sanitizer)
    graphffi.register_global_func("sanitized.double", lambda x, y: None, override=True)
    rows = torch.export.Dim("rows", max=8)
    with torch.no_grad():
        exported = torch.export.export(Model(), (torch.rand(3, 4),), dynamic_shapes=({0: rows},))
    path = tmp_path / "model.so"
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

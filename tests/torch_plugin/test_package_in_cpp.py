# SPDX-License-Identifier: Apache-2.0
"""Packages in a C++ program without Python: scratch memory, threads, errors."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import graphffi
import graphffi_torch
from graphffi import Tensor
from tests.torch_release import IS_TORCH_2_10

pytestmark = []

KERNELS = r"""
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <csignal>
#include <cstdlib>

namespace ffi = tvm::ffi;

float* Data(const ffi::TensorView& x) { return static_cast<float*>(x.data_ptr()); }

ffi::Tensor Allocate(const ffi::TensorView& x) {
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::Shape(x.shape()), x.dtype(),
                                   x.device());
}

void given(ffi::TensorView x, ffi::TensorView workspace, ffi::TensorView out) {
  TVM_FFI_CHECK(workspace.numel() == 256, ValueError) << "got " << workspace.numel() << " bytes";
  float* scratch = Data(workspace);
  for (int64_t i = 0; i < x.numel(); ++i) scratch[i] = Data(x)[i] + 1;
  for (int64_t i = 0; i < x.numel(); ++i) Data(out)[i] = scratch[i];
}
void allocated(ffi::TensorView x, ffi::TensorView out) {
  ffi::Tensor scratch = Allocate(x);
  for (int64_t i = 0; i < x.numel(); ++i) Data(scratch)[i] = Data(x)[i] + 1;
  for (int64_t i = 0; i < x.numel(); ++i) Data(out)[i] = Data(scratch)[i];
}
ffi::Tensor returned(ffi::TensorView x) {
  if (std::getenv("SCRATCH_CRASH") != nullptr) std::raise(SIGSEGV);
  if (Data(x)[0] == 2) TVM_FFI_THROW(IndexError) << "mytest: expected no zeros";
  ffi::Tensor out = Allocate(x);
  for (int64_t i = 0; i < x.numel(); ++i) Data(out)[i] = Data(x)[i] + 1;
  return out;
}
"""


class Model(torch.nn.Module):
    """Calls kernels that need memory of their own."""

    def __init__(self) -> None:
        super().__init__()
        kernels = graphffi.cpp.load_inline(
            "scratch", cpp_sources=KERNELS, functions=["given", "allocated", "returned"]
        )

        def define(name: str, plan: str, workspace: Any) -> Any:
            @graphffi.op(f"scratch::{name}", kernel=kernels[name], plan=plan, workspace=workspace)
            def op(x: Tensor) -> Tensor:
                return graphffi.like(x)

            return op

        self.given = define("given", "x, workspace, out", 256)
        self.allocated = define("allocated", "x, out", lambda x: x.size(0) * 4)
        self.returned = define("returned", "x", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of float32[n] gives x + 3."""
        return self.returned(self.allocated(self.given(x)))


def run(program: Path, *arguments: str) -> list[str]:
    command = [str(program), *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_kernels_get_memory_and_their_errors_name_the_kind(tmp_path: Path) -> None:
    sizes = {"x": {0: torch.export.Dim("n", min=2, max=64)}}
    exported = torch.export.export(Model(), (torch.ones(4),), dynamic_shapes=sizes)
    package = graphffi_torch.package(exported, tmp_path / "model.pt2")
    model = graphffi_torch.load_package(package, trust=True)
    assert model(torch.ones(5)).tolist() == [4] * 5
    example = importlib.import_module("examples.llama_block_cpp.export")
    program = tmp_path / "run_package"
    example.build(str(program), Path(__file__).with_name("run_package.cc"))
    mean, wrong, *error = run(program, package)
    assert (mean, wrong) == ("4 4", "0")
    has_texts = not IS_TORCH_2_10
    assert ("IndexError: mytest: expected no zeros" if has_texts else "API call failed") in error[0]
    (unloaded, *_) = run(program, package, "unloaded")
    assert ("graphffi: cannot load 'scratch" if has_texts else "API call failed") in unloaded
    check_record_of_a_crash(program, package, tmp_path / "record")


def check_record_of_a_crash(program: Path, package: str, folder: Path) -> None:
    """The call under way is on disk, and crashes the same alone."""
    record = {"GRAPHFFI_RECORD": str(folder), "GRAPHFFI_RECORD_LEVEL": "3", "SCRATCH_CRASH": "1"}
    done = subprocess.run([program, package], check=False, env=os.environ | record)
    assert done.returncode == -signal.SIGSEGV
    library = graphffi.cpp.load_inline(
        "scratch", cpp_sources=KERNELS, functions=["given", "allocated", "returned"]
    ).path
    command = [sys.executable, "-m", "graphffi", "replay", str(folder), "--json"]
    command += ["--library", str(library)]
    for environment, outcome in (({"SCRATCH_CRASH": "1"}, "crash"), ({}, "ran")):
        done = subprocess.run(
            command, check=False, env=os.environ | environment, stdout=subprocess.PIPE
        )
        found = json.loads(done.stdout)
        assert (found["op"], found["recorded"]) == ("scratch::returned", "under way")
        assert found["outcome"] == outcome, found
    (one, two) = (
        subprocess.run([*command, "--call", n], check=False, stdout=subprocess.PIPE).stdout
        for n in "01"
    )
    assert [json.loads(text)["outcome"] for text in (one, two)] == ["same", "same"]

# SPDX-License-Identifier: Apache-2.0
"""Direct calls of functions of apache-tvm-ffi's package in graphs, each in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import warm_python

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.needs("tvm_ffi"), pytest.mark.slow]

BEGIN = r"""
import logging, sys
import torch, tvm_ffi
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
m = tvm_ffi.cpp.load_inline("apache_calls", cpp_sources='''
#include <tvm/ffi/tvm_ffi.h>
void f(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(y.data_ptr())[i] = static_cast<float*>(x.data_ptr())[i] + 1;
  }
}
''', functions=["f"])
call = lambda x: (o := torch.empty_like(x), m.f(x, o))[0] * 2
"""
COMPILED = """
import graphffi_torch
from torch._dynamo.testing import CompileCounterWithBackend
counter = CompileCounterWithBackend("inductor")
run = torch.compile(call, fullgraph=True, dynamic=True, backend=counter)
for size in (3, 5, 7):
    torch.testing.assert_close(run(torch.ones(size)), torch.full((size,), 4.0))
assert counter.frame_count == 1
(graph,) = counter.graphs
(node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.tvm_ffi.call.default)
assert node.args[0].endswith("apache_calls.so::f"), node.args
"""
EXPORTED = """
import graphffi_torch

class Model(torch.nn.Module):
    def forward(self, x):
        return call(x)

sizes = {"x": {0: torch.export.Dim("n")}}
exported = torch.export.export(Model(), (torch.ones(3),), dynamic_shapes=sizes, strict=True)
graphffi_torch.package(exported, sys.argv[1])
"""
LOADED = """
import sys
import torch
import graphffi_torch

run = graphffi_torch.load_package(sys.argv[1], trust=True)
for size in (3, 5, 7):
    torch.testing.assert_close(run(torch.ones(size)), torch.full((size,), 4.0))
"""
UNNAMED = """
import graphffi_torch

class Model(torch.nn.Module):
    def forward(self, x):
        function(x)
        return x * 2

def make(by):
    def add(x):
        torch.from_dlpack(x).add_(by)
    return tvm_ffi.convert(add)

for by in (1.0, 2.0):
    function = make(by)
    run = torch.compile(Model(), fullgraph=True)
    assert run(torch.zeros(1)).item() == 2 * by
exported = torch.export.export(Model(), (torch.ones(3),), strict=True)
try:
    graphffi_torch.package(exported, sys.argv[1])
except ValueError as error:
    assert "expected a function of a library, or a registered name, got one" in str(error), error
else:
    raise AssertionError
"""
STREAMS = """
import graphffi_torch

def step(x):
    o = torch.empty_like(x)
    with tvm_ffi.use_torch_stream():
        m.f(x, o)
    return o * 2

assert torch.compile(step, fullgraph=True)(torch.ones(3)).tolist() == [4.0] * 3
"""
BY_TVM = """
import sys, tvm
import graphffi_torch
from tvm import te

def make(factor):
    x = te.placeholder((te.var("n"),), name="x")
    o = te.compute(x.shape, lambda *at: x(*at) * float(factor), name="o")
    function = te.create_prim_func([x, o]).with_attr("global_symbol", "scaled")
    return tvm.compile(tvm.IRModule({"scaled": function}), target="llvm")

executable = make(2)
executable.export_library(sys.argv[1])
module = tvm.runtime.load_module(sys.argv[1])
for get in (
    lambda: module["scaled"], lambda: module.scaled, lambda: module, lambda: executable,
    lambda: executable["scaled"], lambda: executable.jit()["scaled"], lambda: executable.mod.scaled,
):
    def step(x):
        o = torch.empty_like(x)
        get()(x, o)
        return o + 1

    torch._dynamo.reset()
    run = torch.compile(step, fullgraph=True, dynamic=True)
    for size in (16, 5):
        assert run(torch.ones(size)).tolist() == [3.0] * size
executable = make(3)  # which the code compiled last knows
assert run(torch.ones(5)).tolist() == [4.0] * 5
try:
    torch.compile(lambda x: executable["absent"](x), fullgraph=True)(torch.ones(5))
except AttributeError as error:
    assert "absent" in str(error), error
else:
    raise AssertionError
"""
BROKEN = """
from tests.hidden_names import hide_features

hide_features(*sys.argv[2:])
import graphffi_torch

for _ in range(2):
    torch._dynamo.reset()
    assert torch.compile(call)(torch.ones(3)).tolist() == [4.0] * 3
torch._dynamo.reset()
try:
    torch.compile(call, fullgraph=True)(torch.ones(3))
except Exception as error:
    print("refused:", type(error).__name__)
"""


def run(program: str, *arguments: str | Path, **environment: str) -> str:
    variables = {**os.environ, "GRAPHFFI_RUNTIME": "apache", **environment}
    command = [sys.executable, "-W", "ignore", "-c", program, *map(str, arguments)]
    torch = warm_python.TORCH
    return warm_python.run(command, check=True, cwd=ROOT, env=variables, modules=torch).stdout


def test_a_call_of_a_module_of_load_inline_is_a_node() -> None:
    run(BEGIN + COMPILED)


def test_a_package_holds_the_library_of_such_a_module(tmp_path: Path) -> None:
    run(BEGIN + EXPORTED, tmp_path / "model.pt2")
    run(LOADED, tmp_path / "model.pt2")


def test_a_function_without_a_library_has_a_name_in_the_process(tmp_path: Path) -> None:
    run(BEGIN + UNNAMED, tmp_path / "model.pt2")


def test_streams_of_that_package_are_traced_through() -> None:
    run(BEGIN + STREAMS)


@pytest.mark.needs("tvm")
def test_modules_and_executables_of_tvm_are_traced(tmp_path: Path) -> None:
    run(BEGIN + COMPILED + BY_TVM, tmp_path / "scaled.so")


def test_without_private_names_the_graph_breaks_with_one_warning() -> None:
    output = run(BEGIN + BROKEN, "", "modules")
    assert output.count("WARNING graphffi_torch: modules") == 1
    assert "refused: " in output


def test_without_inductors_names_calls_go_through_the_dispatcher() -> None:
    assert "WARNING" not in run(BEGIN + COMPILED, GRAPHFFI_INDUCTOR="0")

# SPDX-License-Identifier: Apache-2.0
"""Torch's caches on disk serve no code that was made from other values of what rules refer to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from graphffi_torch._operators import operator_schema
from tests import warm_python

PROGRAM = """
import argparse, sys
import graphffi, torch
import graphffi_torch

class Computed:
    def __getattr__(self, name):
        return float(sys.argv[1])

args, computed = argparse.Namespace(scale=1.0), Computed()

@graphffi.Function
def copy(x, out):
    torch.from_dlpack(out).copy_(torch.from_dlpack(x))

graphffi.register_global_func("stale.copy", copy)

def define(name, rule):
    op = graphffi.define_op(
        f"stale::{name}", schema="(Tensor x) -> Tensor", kernel="stale.copy", infer=graphffi.like
    )
    op.register_vjp(rule)
    return op

ops = [
    define("of_the_namespace", lambda saved, grad: grad * args.scale),
    define("of_getattr", lambda saved, grad: grad * computed.scale),
]
args.scale = float(sys.argv[1])  # after the definitions
for op in ops:
    x = torch.ones(2, requires_grad=True)
    torch.compile(lambda x: op(x), fullgraph=True)(x).sum().backward()
    print(x.grad[0].item())
"""
TWICE = """
import sys
import graphffi, torch, graphffi_torch

def sized(factors):
    return lambda x: graphffi.like(x, shape=(x.shape[0] * sum(f() for f in factors),))

def fill(x, out):
    torch.from_dlpack(out).fill_(1)

one, two = (lambda: 1), (lambda: 2)
factors = [one, two, one] if sys.argv[1] == "4" else [one, two, two]
op = graphffi.define_op(
    "stale::sized", schema="(Tensor x) -> Tensor", kernel=fill, infer=sized(factors)
)
x = torch.ones(2)
print(len(op(x)), len(torch.compile(lambda x: op(x) * 1, fullgraph=True)(x)))
"""

# The release "v0" calls sites by that name. A call that names no definition has no digest.
RELEASES = """
import re, sys
import graphffi, torch
from graphffi_torch import _C
from torch._dynamo.utils import counters
from torch._inductor.utils import IndentedBuffer

writeline = IndentedBuffer.writeline

def write_renamed(buffer, line):
    is_text = isinstance(line, str)
    writeline(buffer, re.sub("call_site_v[0-9]+", "call_site_v0", line) if is_text else line)

if sys.argv[1] == "v0":
    (name,) = (name for name in dir(_C) if name.startswith("call_site_v"))
    _C.call_site_v0 = getattr(_C, name)
    IndentedBuffer.writeline = write_renamed

@graphffi.Function
def copy(x, out):
    torch.from_dlpack(out).copy_(torch.from_dlpack(x))

graphffi.register_global_func("stale.copy", copy)

def doubled(x):
    out = torch.empty_like(x)
    torch.ops.tvm_ffi.call("stale.copy", [x], [out])
    return out * 2

found = torch.compile(doubled, fullgraph=True)(torch.full((2,), 3.0))
print(found.tolist(), counters["inductor"]["fxgraph_cache_hit"])
"""


@pytest.mark.slow
def test_code_of_another_release_is_compiled_again(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for release, hits in (("v0", 0), ("v0", 1), ("v1", 0)):
        done = warm_python.run([sys.executable, "-c", RELEASES, release], env=environment)
        assert done.stdout == f"[6.0, 6.0] {hits}\n", done.stderr


@pytest.mark.slow
def test_a_later_process_has_its_own_values(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment: dict[str, Any] = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    for scale in ("2.0", "5.0"):
        done = warm_python.run([sys.executable, program, scale], env=environment)
        assert done.stdout == f"{scale}\n{scale}\n", done.stderr


MADE = """
import sys
from pathlib import Path
import graphffi, torch
from graphffi import Tensor
from torch._dynamo.utils import counters

SOURCE = Path(sys.argv[1])

@graphffi.op("stale::filled")
def filled(x: Tensor) -> Tensor:
    return graphffi.like(x)

@filled.add_factory(key=lambda x: x.shape[0], name="made", depends=[SOURCE])
def make(width):
    flags = [f"-DWIDTH={width}"]
    return graphffi.cpp.build("filled", [SOURCE], extra_cflags=flags) + "::fill"

value = torch.compile(lambda x: filled(x) * 1, fullgraph=True)(torch.zeros(3))[0].item()
print(value, counters["inductor"]["fxgraph_cache_hit"])
"""
FILL = """
#include <tvm/ffi/tvm_ffi.h>
#include "value.h"
void Fill(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  for (int i = 0; i < WIDTH; ++i) static_cast<float*>(out.data_ptr())[i] = VALUE;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill, Fill);
"""


@pytest.mark.slow
def test_a_rule_that_mentions_another_object_twice_has_its_own_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TWICE)
    environment: dict[str, Any] = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    for factor in (4, 5):
        done = warm_python.run([sys.executable, program, factor], env=environment)
        assert done.stdout == f"{2 * factor} {2 * factor}\n", done.stderr


@pytest.mark.slow
def test_a_header_of_a_made_kernel_takes_effect(tmp_path: Path) -> None:
    program, source, header = (tmp_path / n for n in ("program.py", "fill.cc", "value.h"))
    program.write_text(MADE)
    source.write_text(FILL)

    def run(value: int, kernels: str) -> str:
        header.write_text(f"#define VALUE {value}\n")
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "programs"),
            "GRAPHFFI_CACHE_DIR": str(tmp_path / kernels),
        }
        command = [sys.executable, program, source]
        return warm_python.run(command, env={**os.environ, **caches}, check=True).stdout.strip()

    # The first process knows of no headers before it has traced.
    assert [run(1, "kernels") for _ in range(3)] == ["1.0 0", "1.0 0", "1.0 1"]
    assert run(2, "kernels") == "2.0 0"
    assert run(2, "others") == "2.0 0"


@pytest.mark.slow
def test_kernels_that_were_made_ahead_may_be_elsewhere_later(tmp_path: Path) -> None:
    (tmp_path / "fill.cc").write_text(FILL)
    (tmp_path / "value.h").write_text("#define VALUE 3\n")
    (tmp_path / "program.py").write_text(MADE)
    prebuild = MADE.partition("value =")[0] + "graphffi.prebuild(filled, [3], sys.argv[2])\n"
    (tmp_path / "prebuild.py").write_text(prebuild)

    def run(program: str, *arguments: str, **environment: str) -> str:
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "programs"),
            "GRAPHFFI_CACHE_DIR": str(tmp_path / "kernels"),
        }
        command = [sys.executable, program, "fill.cc", *arguments]
        env = {**os.environ, **caches, **environment}
        return warm_python.run(command, cwd=tmp_path, env=env, check=True).stdout.strip()

    run("prebuild.py", "first")
    found = [run("program.py", GRAPHFFI_PREBUILT="first") for _ in range(2)]
    (tmp_path / "first").rename(tmp_path / "second")
    found.append(run("program.py", GRAPHFFI_PREBUILT="second"))
    assert found == ["3.0 0", "3.0 1", "3.0 0"]


def test_code_without_lowerings_is_of_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    with_lowerings = operator_schema.graph_digest("0")
    monkeypatch.setattr(operator_schema, "USES_LOWERINGS", not operator_schema.USES_LOWERINGS)
    assert operator_schema.graph_digest("0") != with_lowerings

# SPDX-License-Identifier: Apache-2.0
"""From the start of a process to its first result: eager, compiled, from a package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import native
from timing import Case, Contender, once

FOLDER = native.OUTPUT / "start"

OURS = """
import graphffi, graphffi_torch, torch
library = graphffi.load_module({library!r})
op = graphffi.define_op(
    "benchmark_start::touch", schema="(Tensor x) -> Tensor", kernel=library.touch,
    infer=graphffi.like)
"""
CUSTOM = """
import torch, tvm_ffi
kernel = tvm_ffi.load_module({library!r}).touch
@torch.library.custom_op("benchmark_start_custom::touch", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel(x, out)
    return out
op.register_fake(torch.empty_like)
"""
TYPED = """
import torch
torch.ops.load_library({typed!r})
op = torch.ops.benchmark_typed.touch.default
"""
EAGER = "op(torch.ones(16))\n"
COMPILED = "torch.compile(lambda x: op(x) * 2, fullgraph=True)(torch.ones(16))\n"
EXPORT = """
class Program(torch.nn.Module):
    def forward(self, x):
        return op(x) * 2
exported = torch.export.export(Program(), (torch.ones(16),))
"""
PACKAGE = EXPORT + "torch._inductor.aoti_compile_and_package(exported, package_path={path!r})\n"
LIBRARY = EXPORT + "import graphffi_torch; graphffi_torch.to_library(exported, {path!r})\n"
LOAD_PACKAGE = """
torch._inductor.aoti_load_package({path!r})(torch.ones(16))
"""
LOAD_LIBRARY = """
import graphffi, numpy
graphffi.load_module({path!r}).main(numpy.ones(16, "float32"))
"""


def execute(code: str, cache: Path = FOLDER / "cache") -> None:
    """Runs a program in a fresh interpreter, with bytecode cached as for installed packages."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def starting(name: str, code: str) -> Contender:
    """Measures a program whose caches are warm."""
    execute(code)
    return Contender(name, once(lambda: execute(code)))


def starting_cold(name: str, code: str) -> Contender:
    """Measures a program with empty caches of torch."""
    cold = FOLDER / "cold"

    def forget() -> None:
        shutil.rmtree(cold, ignore_errors=True)

    def measure() -> float:
        forget()
        return once(lambda: execute(code, cold))()

    return Contender(name, measure)


def cases(library: Path) -> list[Case]:
    """Programs from their start to the first result, timed by the clock."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    names = {"library": str(library), "typed": str(native.torch_op("typed_op.cc"))}
    ops = {
        "graphffi op": OURS.format(**names),
        "torch.library.custom_op": CUSTOM.format(**names),
        "typed C++ op": TYPED.format(**names),
    }

    def table(what: str, code: str, make: Callable[[str, str], Contender]) -> Case:
        contenders = [make(name, op + code) for name, op in ops.items()]
        return Case(f"process start to result: {what}", contenders, "ms", 1e-6, rounds=5)

    paths = {name: str(FOLDER / f"{i}.pt2") for i, name in enumerate(ops)}
    for name, op in ops.items():
        if name != "torch.library.custom_op":  # packages do not contain its kernel, in Python
            execute(op + PACKAGE.format(path=paths[name]))
    standalone = str(FOLDER / "program.so")
    execute(ops["graphffi op"] + LIBRARY.format(path=standalone))
    packaged = [
        starting("graphffi, to_library, NumPy", LOAD_LIBRARY.format(path=standalone)),
        *(
            starting(f"{name}, package", ops[name] + LOAD_PACKAGE.format(path=paths[name]))
            for name in ("graphffi op", "typed C++ op")
        ),
    ]
    return [
        table("eager", EAGER, starting),
        table("compiled, caches warm", COMPILED, starting),
        table("compiled, caches empty", COMPILED, starting_cold),
        Case("process start to result: made ahead of time", packaged, "ms", 1e-6, rounds=5),
    ]

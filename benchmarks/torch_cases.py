# SPDX-License-Identifier: Apache-2.0
"""Calls from PyTorch: a function, an op, an op in a compiled graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import torch
import tvm_ffi
from timing import Case, Contender, call, chain

import graphffi

SHORT, LONG = 10, 50


def custom_op(kernel: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """What one writes today: `torch.library.custom_op` around apache-tvm-ffi's function."""

    @torch.library.custom_op("benchmark_custom::touch", mutates_args=())
    def touch(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernel(x, out)
        return out

    touch.register_fake(torch.empty_like)
    return touch


def compiled_chain(op: Callable[[Any], Any], x: torch.Tensor) -> Callable[[int], Callable[[], Any]]:
    """Builds compiled programs that call `op` one call after the other."""

    def build(length: int) -> Callable[[], Any]:
        lines = ["def program(value):", *["    value = op(value)"] * length, "    return value"]
        names: dict[str, Any] = {"op": op}
        # From text, so that every program has code of its own: compiled variants of shared code
        # would be told apart by guards at each run.
        exec("\n".join(lines), names)
        compiled = torch.compile(names["program"], fullgraph=True)
        compiled(x)
        return lambda: compiled(x)

    return build


def packaged_chain(op: Callable[[Any], Any], x: torch.Tensor) -> Callable[[int], Callable[[], Any]]:
    """Builds AOTInductor packages that call `op` one call after the other."""

    class Program(torch.nn.Module):
        def __init__(self, length: int) -> None:
            super().__init__()
            self.length = length

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            for _ in range(self.length):
                value = op(value)
            return value

    def build(length: int) -> Callable[[], Any]:
        import torch._inductor

        exported = torch.export.export(Program(length), (x,))
        package = torch._inductor.aoti_load_package(
            torch._inductor.aoti_compile_and_package(exported)
        )
        return lambda: package(x)

    return build


def cases(library: Path) -> list[Case]:
    """All of them, on one CPU thread and without gradients."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    ours = graphffi.load_module(str(library))
    theirs = tvm_ffi.load_module(str(library))
    torch.ops.load_library(str(native.typed_op()))
    op = graphffi.define_op(
        "benchmark::touch",
        schema="(Tensor x) -> Tensor",
        kernel=ours.touch,
        infer=graphffi.like,
    )
    custom, typed = custom_op(theirs.touch), torch.ops.benchmark_typed.touch.default
    x, out = torch.ones(16), torch.empty(16)
    names = {"x": x, "out": out}
    eager = [
        Contender("graphffi op", call("f(x)", {**names, "f": op})),
        Contender("torch.library.custom_op", call("f(x)", {**names, "f": custom}, 5_000)),
        Contender("typed C++ op", call("f(x)", {**names, "f": typed})),
    ]
    graph = [
        Contender("graphffi op", chain(compiled_chain(op, x), SHORT, LONG)),
        Contender("typed C++ op", chain(compiled_chain(typed, x), SHORT, LONG)),
        Contender("torch.library.custom_op", chain(compiled_chain(custom, x), SHORT, LONG)),
    ]
    packages = [
        Contender("graphffi op", chain(packaged_chain(op, x), SHORT, LONG)),
        Contender("typed C++ op", chain(packaged_chain(typed, x), SHORT, LONG)),
    ]
    function = [
        Contender("graphffi Function", call("f(x, out)", {**names, "f": ours.touch})),
        Contender("apache tvm_ffi.Function", call("f(x, out)", {**names, "f": theirs.touch})),
    ]
    return [
        Case("torch eager: function of 2 tensors", function),
        Case("torch eager: op that allocates its result", eager),
        Case("torch.compile: op in a graph", graph),
        Case("AOTInductor: op in a package", packages),
    ]

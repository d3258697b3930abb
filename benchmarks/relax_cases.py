# SPDX-License-Identifier: Apache-2.0
"""Ops in Relax modules of Apache TVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tvm
from timing import Case, Contender, chain
from torch_cases import Chain
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

import graphffi
import graphffi_tvm


def program(op: Any) -> Callable[[int], Callable[[], Any]]:
    """Makes modules that call an op so many times, each call on the result of the one before."""

    def build(count: int) -> Callable[[], Any]:
        exported = torch.export.export(Chain(op, count), (torch.ones(16),))
        module = from_exported_program(
            exported, custom_convert_map=graphffi_tvm.convert_map(), run_ep_decomposition=False
        )
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        main, x = machine["main"], tvm.runtime.from_dlpack(torch.ones(16))
        return lambda: main(x)

    return build


def cases(library: Path) -> list[Case]:
    """A kernel that TVM calls itself, one that a plan calls, and one behind a Python function."""
    kernel = graphffi.load_module(str(library)).touch_first
    in_python = graphffi.register_global_func(
        "benchmark_relax.touch", lambda x, out: kernel(out, x), override=True
    )

    def define(name: str, function: Any, plan: str) -> Any:
        return graphffi.define_op(
            f"benchmark_relax::{name}",
            schema="(Tensor x) -> Tensor",
            kernel=function,
            plan=plan,
            infer=graphffi.like,
        )

    first = f"{library}::touch_first"
    contenders = {
        "graphffi op: TVM calls the kernel": define("direct", f"{library}::touch", "x, out"),
        "graphffi op, the result first: by a plan": define("by_plan", first, "out, x"),
        "the same through a Python function": define("python", in_python, "x, out"),
    }
    measured = [Contender(name, chain(program(op), 1, 101)) for name, op in contenders.items()]
    return [Case("Relax: one more call in a module", measured)]

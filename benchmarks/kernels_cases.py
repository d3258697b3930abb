# SPDX-License-Identifier: Apache-2.0
"""Calls of an op with four kernels against the same op with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax_cases
import torch
import torch_cases
from timing import Case, Contender, call, chain

import graphffi


def op_of(kernel: Any, count: int) -> Any:
    """An op with `count` kernels, of which only the last fits."""
    op = graphffi.define_op(
        f"benchmark::kernels_{count}", schema="(Tensor x) -> Tensor", infer=graphffi.like
    )
    for i in range(1, count):
        op.add_kernel(
            kernel, name=f"of_size_{i}", device="cpu", when=lambda x, i=i: x.shape[0] == i
        )
    op.add_kernel(kernel, name="any")
    return op


def cases(library: Path) -> list[Case]:
    """Eager, in a graph, in a package and in JAX; on one CPU thread and without gradients."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    ours = graphffi.load_module(str(library))
    ops = {f"{n} kernel{'s' * (n > 1)}": op_of(ours.touch, n) for n in (4, 1)}
    x = torch.ones(16)
    lengths = torch_cases.SHORT, torch_cases.LONG
    return [
        Case(
            "torch eager: op with several kernels",
            [Contender(n, call("f(x)", {"x": x, "f": op})) for n, op in ops.items()],
        ),
        Case(
            "torch.compile: op with several kernels in a graph",
            [
                Contender(n, chain(torch_cases.compiled_chain(op, x), *lengths))
                for n, op in ops.items()
            ],
        ),
        Case(
            "AOTInductor: op with several kernels in a package",
            [
                Contender(n, chain(torch_cases.packaged_chain(op, x), *lengths))
                for n, op in ops.items()
            ],
        ),
        jax_cases.chain_case("jax.jit: op with several kernels", ops),
    ]

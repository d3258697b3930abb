# SPDX-License-Identifier: Apache-2.0
"""Runs exported programs by Apache TVM."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import tvm
from torch.utils._pytree import tree_flatten
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

import graphffi_tvm


class Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def export(function: Any, args: Sequence[Any], shapes: Any = None) -> torch.export.ExportedProgram:
    module = function if isinstance(function, torch.nn.Module) else Module(function)
    shapes = None if shapes is None else (tuple(shapes),)
    return torch.export.export(module, tuple(args), dynamic_shapes=shapes)


def convert(program: torch.export.ExportedProgram, *, functional: bool = False) -> tvm.IRModule:
    """The module of a program; torch takes two seconds for its functional form."""
    return from_exported_program(
        program,
        custom_convert_map=graphffi_tvm.convert_map(),
        run_ep_decomposition=functional,
    )


def runner(module: tvm.IRModule) -> Callable[..., list[torch.Tensor]]:
    """A function of the tensors that gives the results as a list of torch's."""
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return functools.partial(call, machine)


def call(machine: relax.VirtualMachine, *args: Any) -> list[torch.Tensor]:
    tensors = [x for x in tree_flatten(args)[0] if isinstance(x, torch.Tensor)]
    given = [tvm.runtime.from_dlpack(x.detach().clone().contiguous()) for x in tensors]
    returned = machine["main"](*given)
    many = [returned] if isinstance(returned, tvm.runtime.Tensor) else returned
    return [torch.from_dlpack(x) for x in many]


def run(function: Any, *args: Any, **options: Any) -> list[torch.Tensor]:
    """Exports a function with static sizes, and calls it."""
    return runner(convert(export(function, args), **options))(*args)

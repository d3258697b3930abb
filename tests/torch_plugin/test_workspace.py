# SPDX-License-Identifier: Apache-2.0
"""Scratch memory that kernels get as an argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphffi
import graphffi_torch

X = torch.ones(3)


def _copy(x: Any, workspace: Any, out: Any) -> None:
    torch.from_dlpack(out).fill_(workspace.shape[0])


def define(name: str, workspace: Any) -> Any:
    return graphffi.define_op(
        f"workspace::{name}",
        schema="(Tensor x) -> Tensor",
        kernel=_copy,
        plan="x, workspace, out",
        infer=graphffi.like,
        workspace=workspace,
    )


class Model(torch.nn.Module):
    """Calls the op."""

    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x)


def run_exported(op: Any) -> Any:
    exported = torch.export.export(Model(op), (X,))
    return graphffi_torch.decompose(exported).module()(X)


PATHS = {
    "eager": lambda op: op(X),
    "aot": lambda op: torch.compile(Model(op), fullgraph=True, backend="aot_eager")(X),
    "inductor": lambda op: torch.compile(Model(op), fullgraph=True)(X),
    "cpp": lambda op: torch.compile(Model(op), fullgraph=True, options={"cpp_wrapper": True})(X),
    "export": run_exported,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_number_of_bytes_is_allocated(path: str) -> None:
    assert PATHS[path](define("bytes", 16)).tolist() == [16, 16, 16]


@pytest.mark.parametrize("path", PATHS)
def test_a_rule_is_refused(path: str) -> None:
    op = define("rule", lambda x: x.shape[0] * 4)
    # Inductor's C++ code drops what operators say that it calls through Python (2.13; not 2.10).
    kind, message = (
        ((RuntimeError, ValueError), None)
        if path == "cpp"
        else (ValueError, "plan: expected a workspace, got a call without one; declare workspace=")
    )
    with pytest.raises(kind, match=message):
        PATHS[path](op)

# SPDX-License-Identifier: Apache-2.0
"""Scratch memory that kernels get as an argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

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
def test_a_rule_says_how_many_bytes(path: str) -> None:
    assert PATHS[path](define("rule", lambda x: x.shape[0] * 4)).tolist() == [12, 12, 12]


def test_rules_see_sizes_and_attributes() -> None:
    op = graphffi.define_op(
        "workspace::attributes",
        schema="(Tensor x, int a=1, *, int[] b=[], str kind='small') -> Tensor",
        kernel=_copy,
        plan="x, workspace, out",
        infer=lambda x, *_: graphffi.like(x),
        workspace=lambda x, a, b, kind: x.numel * a + sum(b) + (100 if kind == "large" else 0),
    )
    traced = torch.compile(op, fullgraph=True, dynamic=True)
    for call in (op, torch.ops.workspace.attributes, traced):
        assert call(X)[0] == 3
        assert call(X, 5)[0] == 15
        assert call(torch.ones(2, 4), 5, b=[7, 8])[0, 0] == 55
        assert call(torch.ones(0), b=[7], kind="large").shape == (0,)
        assert call(torch.ones(()), 2, kind="large") == 102
        assert call(X, 0)[0] == 0


def test_changing_sizes_compile_once() -> None:
    op = define("dynamic", lambda x: x.shape[0] * 4)
    counter = CompileCounterWithBackend("inductor")
    step = torch.compile(lambda x: op(x * 2) + 1, backend=counter, fullgraph=True, dynamic=True)
    for rows in (3, 5, 8):
        assert step(torch.ones(rows)).tolist() == [4 * rows + 1] * rows
    assert counter.frame_count == 1


@pytest.mark.parametrize("effect", [False, True, "ordered"])
def test_ops_that_update_operands_have_rules(effect: Any) -> None:
    def add_size(x: Any, workspace: Any) -> None:
        torch.from_dlpack(x).add_(workspace.shape[0])

    op = graphffi.define_op(
        f"workspace::update_{effect}",
        schema="(Tensor(a!) x) -> ()",
        kernel=add_size,
        plan="x, workspace",
        workspace=lambda x: x.shape[0] * 4,
        has_side_effect=effect,
    )
    for call in (op, torch.compile(op, fullgraph=True), torch.compile(op, dynamic=True)):
        assert call(torch.ones(3)).tolist() == [13] * 3


@pytest.mark.slow
def test_a_rule_travels_with_exported_programs(tmp_path: Path) -> None:
    op = define("exported", lambda x: x.shape[0] * 4)
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(Model(op), (X,), dynamic_shapes={"x": {0: rows}})
    path = str(tmp_path / "model.pt2")
    graphffi_torch.package(exported, path)
    packaged = graphffi_torch.load_package(path, trust=True)
    decomposed = graphffi_torch.decompose(exported).module()
    for model in (packaged, decomposed):
        for size in (3, 7):
            assert model(torch.ones(size)).tolist() == [4 * size] * size


@pytest.mark.parametrize("path", PATHS)
def test_a_negative_number_is_refused(path: str) -> None:
    op = define("negative", lambda x: 2 - x.shape[0])
    # Inductor's C++ code carries text only.
    kind = (RuntimeError, ValueError) if path == "cpp" else ValueError
    with pytest.raises(kind, match="workspace::negative: workspace: expected 0 to"):
        PATHS[path](op)


@pytest.mark.parametrize("size", [1.5, True, "64", None, [64]])
def test_what_is_no_number_of_bytes_is_refused(size: Any) -> None:
    op = define(f"of_{type(size).__name__}", lambda x: size)
    for call in (op, torch.compile(op, fullgraph=True)):
        with pytest.raises(TypeError, match=r"workspace: expected bytes \(an int\), got"):
            call(X)

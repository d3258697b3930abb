# SPDX-License-Identifier: Apache-2.0
"""Plans that pass ints computed of sizes, on every path of torch."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import graphffi
import graphffi_torch
from tests.families import computed

numbers = itertools.count()
SIZES = ((4, 6, 5), (2, 9, 8), (7, 300, 3))


class Model(torch.nn.Module):
    """Calls the op."""

    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.op(x * 2, y, x.shape[0] - 3)


def check(call: Any, texts: list[str], sizes: Any = SIZES) -> None:
    for rows, columns, last in sizes:
        x, y = torch.ones(rows, columns), torch.ones(2, last)
        assert call(x, y).tolist() == computed.expected(texts, x, y, rows - 3).tolist()


def test_eager_calls() -> None:
    op, texts = computed.define("eager", 1)
    for call in (op, torch.ops.computed.eager):
        for x, y in (
            (torch.ones(4, 6).T, torch.ones(2, 5)),
            (torch.ones(0, 6), torch.ones(1, 1)),
            (torch.ones(3, 8)[:, ::2], torch.ones(5, 0)),
        ):
            assert call(x, y, 9).tolist() == computed.expected(texts, x, y, 9).tolist()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_one_graph_serves_all_sizes(backend: str) -> None:
    op, texts = computed.define(f"dynamic_{backend}", 2)
    counter = CompileCounterWithBackend(backend)
    check(torch.compile(Model(op), backend=counter, fullgraph=True, dynamic=True), texts)
    assert counter.frame_count == 1
    static = torch.compile(Model(op), backend=backend, fullgraph=True, dynamic=False)
    check(static, texts, SIZES[:1])


def test_a_graph_splits_no_call_for_an_updated_operand() -> None:
    def fill(x: Any, value: int) -> None:
        torch.from_dlpack(x).fill_(value)

    op = graphffi.define_op(
        "plantext_torch::fill",
        schema="(Tensor(a!) x) -> ()",
        kernel=fill,
        plan="x, x.numel * 10 + x.shape[0]",
    )
    step = torch.compile(lambda x: op(x * 1) + 1, fullgraph=True, dynamic=True)
    for size in (3, 5):
        assert op(torch.ones(size)).tolist() == [11 * size] * size
        assert step(torch.ones(size)).tolist() == [11 * size + 1] * size


def dynamic() -> Any:
    rows, columns, last = (torch.export.Dim(name, min=2, max=512) for name in "rcl")
    return {"x": {0: rows, 1: columns}, "y": {1: last}}


def export(op: Any) -> Any:
    args = torch.ones(4, 6), torch.ones(2, 5)
    return torch.export.export(Model(op), args, dynamic_shapes=dynamic())


def test_an_exported_program_computes_for_its_sizes() -> None:
    op, texts = computed.define("exported", 3)
    exported = export(op)
    for program in (exported, graphffi_torch.decompose(exported)):
        check(program.module(), texts)


@pytest.mark.slow
def test_packages_and_libraries_compute_for_their_sizes(tmp_path: Path) -> None:
    op, texts = computed.define("packaged", 4)
    exported = export(op)
    path = str(tmp_path / "model.pt2")
    graphffi_torch.package(exported, path)
    check(graphffi_torch.load_package(path, trust=True), texts)
    library = graphffi_torch.to_library(exported, tmp_path / "libmodel.so")
    check(graphffi.load_module(library).main, texts)


def run_exported(op: Any) -> Any:
    x = torch.ones(3)
    program = torch.export.export(_Call(op), (x,), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}})
    return graphffi_torch.decompose(program).module()


class _Call(torch.nn.Module):
    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x)


PATHS = {
    "eager": lambda op: op,
    "aot_eager": lambda op: torch.compile(op, fullgraph=True, backend="aot_eager", dynamic=True),
    "inductor": lambda op: torch.compile(op, fullgraph=True, dynamic=True),
    "export": run_exported,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("8 // (x.shape[0] - 3)", "plan: expected an int of 64 bits, got 8 // 0"),
        ("x.shape[0] * 9223372036854775807", "expected an int of 64 bits, got 3 * 92233720368547"),
        ("x.shape[0] % (x.numel - 3)", "plan: expected an int of 64 bits, got 3 % 0"),
        ("x.shape[1]", "operand 'x': expected a dimension 1 for the plan, got float32[3]"),
    ],
)
def test_what_cannot_be_computed_is_the_error_of_eager_calls(
    path: str, text: str, error: str
) -> None:
    name = f"plantext_torch::wrong{next(numbers)}"
    op = graphffi.define_op(
        name,
        schema="(Tensor x) -> Tensor",
        kernel=lambda n, out: None,
        plan=f"{text}, out",
        infer=graphffi.like,
    )
    call = PATHS[path](op)
    with pytest.raises(ValueError, match=f"^{name}: .*{re.escape(error)}"):
        call(torch.ones(3))

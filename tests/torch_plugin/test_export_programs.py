# SPDX-License-Identifier: Apache-2.0
"""What programs hold after an export: branches, views, transformations, rules that raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import graphffi
import graphffi_torch
from tests.torch_release import IS_TORCH_2_10

X = torch.arange(6.0).reshape(2, 3)


def test_decomposed_programs_name_the_op_that_has_no_gradient(ops: Any) -> None:
    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.total_of([x, self.weight], x)

    program = graphffi_torch.decompose(torch.export.export(Weighted(), (torch.ones(3),)))
    with pytest.raises(
        NotImplementedError, match=r"^mytest::total_of: operand 'xs\[1\]': expected no gradient to"
    ):
        program.module()(torch.ones(3))


@pytest.mark.parametrize("strict", [False, True])
def test_what_a_shape_rule_raises_ends_an_export(ops: Any, strict: bool) -> None:
    def rule(x: Any) -> Any:
        graphffi.check(x.shape[0] > 2, f"expected 3 rows or more, got {x.shape[0]}")
        return graphffi.like(x)

    op = graphffi.define_op(
        "exporttest::rows", schema="(Tensor x) -> Tensor", kernel="exporttest.none", infer=rule
    )
    model = torch.nn.Module()
    model.forward = lambda x: op(x) + 0  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="exporttest::rows: expected 3 rows or more, got 2"):
        torch.export.export(model, (X,), strict=strict)


class Branches(torch.nn.Module):
    """Ops in both branches."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def updated(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            self.ops.increment(y[0], 5.0)
            return self.ops.add(y, 1.0)

        def summed(x: torch.Tensor) -> torch.Tensor:
            return self.ops.split(x).small

        return torch.cond(x.sum() > 0, updated, summed, (x,))


@pytest.mark.slow
@pytest.mark.skipif(IS_TORCH_2_10, reason="needs a newer torch")
def test_branches_of_cond_are_packaged(ops: Any, tmp_path: Path) -> None:
    model = Branches(ops)
    exported = torch.export.export(model, (X,), dynamic_shapes={"x": {0: torch.export.Dim("rows")}})
    decomposed = graphffi_torch.decompose(exported)
    path = graphffi_torch.package(exported, tmp_path / "model.pt2")
    programs = (decomposed, decomposed.run_decompositions())
    runs = [*(p.module() for p in programs), graphffi_torch.load_package(path, trust=True)]
    for x in (X, -torch.ones(5, 3)):
        for run in runs:
            torch.testing.assert_close(run(x), model(x))


class UpdatesAView(torch.nn.Module):
    """Updates one row of an intermediate."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x * 2
        self.ops.increment(rows[1])
        return rows + 0


@pytest.mark.slow
@pytest.mark.parametrize("worked_around", [True, False])
def test_a_view_of_an_intermediate_is_updated_in_its_place(
    ops: Any, tmp_path: Path, worked_around: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not worked_around:
        from graphffi_torch._compiled import inductor as _inductor

        monkeypatch.setattr(_inductor, "_with_offsets", lambda args, kwargs: (args, kwargs))
    columns = {"x": {1: torch.export.Dim("columns", min=2, max=64)}}
    with torch.no_grad():
        exported = torch.export.export(UpdatesAView(ops), (X,), dynamic_shapes=columns)
        path = graphffi_torch.package(exported, tmp_path / "model.pt2")
    rows = graphffi_torch.load_package(path, trust=True)(torch.zeros(2, 5))
    assert rows[1].eq(1).all() == worked_around, (
        "torch lowers sym_storage_offset by itself: drop _inductor._with_offsets"
    )


def test_an_input_may_be_called_as_a_function_of_python_is() -> None:
    exported = torch.export.export(torch.nn.Linear(3, 2), (torch.rand(1, 3),))  # takes `input`
    x = torch.rand(1, 3)
    decomposed = graphffi_torch.decompose(exported).module()
    torch.testing.assert_close(decomposed(x), exported.module()(x))


class Transformed(torch.nn.Module):
    """An op in a transformation."""

    def __init__(self, op: Any, transformation: str) -> None:
        super().__init__()
        self.op, self.transformation = op, transformation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.transformation == "vmap":
            return torch.func.vmap(self.op)(x)
        return torch.func.jvp(self.op, (x,), (x,))[1]


@pytest.mark.parametrize("transformation", ["vmap", "jvp"])
def test_ops_in_transformations_are_refused_by_name(transformation: str) -> None:
    if IS_TORCH_2_10 and transformation == "jvp":
        pytest.skip("torch 2.10 cannot export it")
    op = graphffi.define_op(
        f"exporttest::{transformation}",
        schema="(Tensor x) -> Tensor",
        kernel="exporttest.none",
        infer=graphffi.like,
        vmap="broadcast",
    )
    op.register_jvp(lambda _, tangent: tangent)
    exported = torch.export.export(Transformed(op, transformation), (X,))
    message = f"exporttest::{transformation}: decompose: expected a call outside of torch.func's"
    with pytest.raises(NotImplementedError, match=message):
        graphffi_torch.decompose(exported)


def _count_up(n: int, out: Any) -> None:
    torch.from_dlpack(out).copy_(torch.arange(n))


def test_ops_without_tensor_operands_are_decomposed() -> None:
    count_up = graphffi.define_op(
        "exporttest::count_up",
        schema="(int n) -> Tensor",
        kernel=_count_up,
        infer=lambda n: graphffi.empty((n,), "float32"),
    )
    model = torch.nn.Module()
    model.forward = lambda x: torch.ops.exporttest.count_up(3) + x  # type: ignore[method-assign]
    assert count_up(3).shape == (3,)
    decomposed = graphffi_torch.decompose(torch.export.export(model, (torch.zeros(3),)))
    assert decomposed.module()(torch.zeros(3)).tolist() == [0, 1, 2]

# SPDX-License-Identifier: Apache-2.0
"""Ops that are called for more than their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import graphffi
import graphffi_torch

if TYPE_CHECKING:
    from pathlib import Path

seen: list[tuple[str, float]] = []


def _note(x: Any, label: str) -> None:
    seen.append((str(label), torch.from_dlpack(x).sum().item()))


@pytest.fixture(scope="module")
def note() -> Any:
    return graphffi.define_op(
        "effects::note",
        schema="(Tensor x, str label) -> ()",
        kernel=_note,
        has_side_effect=True,
        vmap="sequential",
    )


class Model(torch.nn.Module):
    """Notes what it gets, twice."""

    def __init__(self, note: Any) -> None:
        super().__init__()
        self.note = note

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert self.note(x, "first") is None
        y = x + 1
        self.note(y, "second")
        self.note(y[:1].clone(), "third")
        self.note(x, "first")
        return y * 2


NOTES = [("first", 3.0), ("second", 6.0), ("third", 2.0), ("first", 3.0)]


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.clear()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_no_call_is_dropped_merged_or_moved(note: Any, backend: str, requires_grad: bool) -> None:
    x = torch.ones(3, requires_grad=requires_grad)
    y = torch.compile(Model(note), fullgraph=True, backend=backend)(x)
    assert seen == NOTES
    if requires_grad:
        y.sum().backward()
        assert x.grad.tolist() == [2, 2, 2]
        assert seen == NOTES


def _count(x: Any, total: Any) -> None:
    seen.append(("count", torch.from_dlpack(total).sum().item()))
    torch.from_dlpack(total).add_(torch.from_dlpack(x))


def _copy(x: Any, y: Any) -> None:
    seen.append(("copy", torch.from_dlpack(x).sum().item()))
    torch.from_dlpack(y).copy_(torch.from_dlpack(x))


@pytest.fixture(scope="module")
def count() -> Any:
    return graphffi.define_op(
        "effects::count_in_torch",
        schema="(Tensor x, Tensor(a!)[] totals) -> ()",
        kernel=lambda x, totals: [_count(x, total) for total in totals] and None,
        has_side_effect=True,
    )


@pytest.fixture(scope="module")
def copy() -> Any:
    return graphffi.define_op(
        "effects::copy",
        schema="(Tensor x) -> Tensor",
        kernel=_copy,
        infer=graphffi.like,
        has_side_effect=True,
    )


class EveryKind(torch.nn.Module):
    """Calls whose results nobody uses, and calls whose results somebody does."""

    def __init__(self, note: Any, count: Any, copy: Any) -> None:
        super().__init__()
        self.note, self.count, self.copy = note, count, copy

    def forward(self, x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        self.note(x, "first")
        self.note(x, "first")
        self.count(x, [x * 2])
        self.count(x, [total])
        self.count(x, [])
        self.copy(x)
        y = self.copy(x + 1)
        graphffi.call_tvm_ffi(_note, x, "called", has_side_effect=True)
        z, changed = graphffi.call_tvm_ffi(
            _count_and_copy, x, y + 0, out=graphffi.like(x), mutates=[1], has_side_effect=True
        )
        return y + z + changed


def _count_and_copy(x: Any, total: Any, y: Any) -> None:
    _count(x, total)
    _copy(x, y)


ALL_NOTES = [
    *[("first", 2.0)] * 2,
    *(("count", 4.0), ("count", 0.0)),
    *(("copy", 2.0), ("copy", 4.0)),
    ("called", 2.0),
    *(("count", 4.0), ("copy", 2.0)),
]


def check(model: Any) -> None:
    x, total = torch.ones(2), torch.zeros(2)
    seen.clear()
    with torch.no_grad():
        assert model(x, total).tolist() == [6, 6]
    assert total.tolist() == [1, 1]
    assert seen == ALL_NOTES


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "cpp"])
def test_every_kind_of_call_is_kept(note: Any, count: Any, copy: Any, backend: str) -> None:
    model = EveryKind(note, count, copy)
    check(model)
    options = {"options": {"cpp_wrapper": True}} if backend == "cpp" else {"backend": backend}
    check(torch.compile(model, fullgraph=True, **options))


@pytest.mark.slow
def test_artifacts_keep_every_kind_of_call(
    note: Any, count: Any, copy: Any, tmp_path: Path
) -> None:
    arguments = (torch.ones(2), torch.zeros(2))
    with torch.no_grad():
        exported = torch.export.export(EveryKind(note, count, copy), arguments)
    assert seen == []
    check(exported.module())
    check(exported.run_decompositions().module())
    program = graphffi_torch.decompose(exported)
    torch.export.save(program, tmp_path / "program.pt2")
    for loaded in (program, torch.export.load(tmp_path / "program.pt2")):
        check(loaded.module())
        check(loaded.run_decompositions().module())
    path = graphffi_torch.package(exported, tmp_path / "package.pt2")
    check(graphffi_torch.load_package(path, trust=True))
    with pytest.raises(ValueError, match="decompose: expected a program before run_decomp"):
        graphffi_torch.decompose(exported.run_decompositions())


def test_gradients_of_calls_with_side_effects_are_refused(count: Any) -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"operand 'totals\[0\]': expected no gradient"):
        count(torch.ones(2), [x * 1])
    result = graphffi.call_tvm_ffi(lambda x, y: None, x, out=graphffi.like(x), has_side_effect=True)
    with pytest.raises(NotImplementedError, match="backward: expected a gradient rule, got none"):
        result.sum().backward()
    op = graphffi.define_op(
        "effects::returning",
        schema="(Tensor x) -> Tensor",
        kernel=lambda x, out: None,
        infer=graphffi.like,
        has_side_effect=True,
    )
    remedy = "got none; register one with register_.*; an op with side effects can have none"
    for call in (op, torch.compile(lambda x: op(x) + 0, backend="aot_eager")):
        with pytest.raises(NotImplementedError, match=f"backward: .*{remedy}"):
            call(x).sum().backward()
    with pytest.raises(NotImplementedError, match=f"jvp: .*{remedy}"):
        torch.func.jvp(op, (x.detach(),), (x.detach(),))


def test_vmap_makes_one_call_per_element(note: Any) -> None:
    torch.func.vmap(lambda x: [x * 1, note(x, "row")][0])(torch.eye(2) * 3)
    assert seen == [("row", 3.0), ("row", 3.0)]


def test_it_has_no_gradient_rule(note: Any) -> None:
    with pytest.raises(ValueError, match="register_vjp: expected an op without side effects"):
        note.register_vjp(lambda saved: None)


def test_ordered_is_what_torch_does_anyway() -> None:
    labels: list[str] = []
    op = graphffi.define_op(
        "effects::ordered_in_torch",
        schema="(Tensor x, str label) -> ()",
        kernel=lambda x, label: labels.append(str(label)),
        has_side_effect="ordered",
    )

    def f(x: torch.Tensor) -> torch.Tensor:
        op(x, "first")
        op(x + 1, "second")
        return x * 2

    for run in (f, torch.compile(f, fullgraph=True)):
        labels.clear()
        run(torch.ones(3))
        assert labels == ["first", "second"]


class InBranch(torch.nn.Module):
    """Notes what it gets if it is positive."""

    def __init__(self, note: Any) -> None:
        super().__init__()
        self.note = note

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def noted(x: torch.Tensor) -> torch.Tensor:
            self.note(x, "positive")
            return x + 1

        return torch.cond(x.sum() > 0, noted, lambda x: x * 2, (x,))


class InLoop(InBranch):
    """Notes what it gets, three times."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            self.note(x, "step")
            return i + 1, x + 1

        i = torch.zeros((), dtype=torch.int64)
        return torch.while_loop(lambda i, _: i < 3, step, (i, x))[1]


@pytest.mark.filterwarnings("ignore:You are calling torch.compile inside:UserWarning")  # 2.10
@pytest.mark.parametrize("model", [InBranch, InLoop])
@pytest.mark.parametrize(("write", "name"), [("package", "m.pt2"), ("to_library", "m.so")])
def test_calls_in_branches_and_loops_are_not_lost(
    note: Any, tmp_path: Path, model: type[torch.nn.Module], write: str, name: str
) -> None:
    exported = torch.export.export(model(note), (torch.ones(3),))
    with pytest.raises(
        NotImplementedError,
        match=f"{write}: kernel '.*': expected no call with side effects in branches and loops",
    ):
        getattr(graphffi_torch, write)(exported, tmp_path / name)


@pytest.mark.parametrize("model", [InBranch, InLoop])
def test_torch_still_loses_calls_in_branches_and_loops(
    note: Any, model: type[torch.nn.Module]
) -> None:
    x = torch.ones(3)
    assert torch.equal(torch.compile(model(note), backend="aot_eager")(x), model(note)(x))
    calls = 1 if model is InBranch else 3
    assert len(seen) == calls, "torch keeps them: drop check_branches, and the row in docs/limits"

# SPDX-License-Identifier: Apache-2.0
"""Ops that are called for more than their results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphffi

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


def test_exported_programs_keep_the_calls(note: Any) -> None:
    exported = torch.export.export(Model(note), (torch.ones(3),))
    assert seen == []
    exported.module()(torch.ones(3))
    assert seen == NOTES


def test_vmap_makes_one_call_per_element(note: Any) -> None:
    torch.func.vmap(lambda x: [x * 1, note(x, "row")][0])(torch.eye(2) * 3)
    assert seen == [("row", 3.0), ("row", 3.0)]


def test_it_has_no_gradient_rule(note: Any) -> None:
    with pytest.raises(ValueError, match="register_vjp: expected an op without side effects"):
        note.register_vjp(lambda saved: None)

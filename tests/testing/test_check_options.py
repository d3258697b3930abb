# SPDX-License-Identifier: Apache-2.0
"""Options and ops that check refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")


import graphffi
from graphffi.testing import check, find
from graphffi.testing._examine import Examination, Options


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["budget", "patience"])
def test_times_that_are_none_are_refused(name: str, seconds: float) -> None:
    with pytest.raises(
        ValueError,
        match=f"nowhere::op: check: {name}: expected seconds, more than 0, got {seconds}",
    ):
        find({"op": "nowhere::op", "module": "json"}, **{name: seconds})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"frameworks": ["numpy"]}, r"frameworks: expected names of torch, jax, got \['numpy'\]"),
        ({"frameworks": "torch"}, "frameworks: expected names of torch, jax, got 'torch'"),
        ({"seed": -1}, "seed: expected an int of 0 or more, got -1"),
        ({"seed": "x"}, "seed: expected an int of 0 or more, got 'x'"),
    ],
)
def test_options_that_are_none_are_refused(options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"nowhere::op: check: {text}"):
        find({"op": "nowhere::op", "module": "json"}, **options)


def test_a_budget_that_is_spent_before_any_input_is_named() -> None:
    op = graphffi.define_op(
        "budgets::op", schema="(Tensor x) -> Tensor", kernel=lambda x, out: None,
        infer=graphffi.like,
    )  # fmt: skip
    events: list[Any] = []
    Examination(op, Options(end=0.0, frameworks=()), lambda event, **of: events.append(of)).run()
    assert [of["text"] for of in events if of.get("kind") == "no input"] == [
        "expected an input that the op takes, got none: the budget was spent; pass a larger one"
    ]


def test_an_op_that_no_other_process_finds_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match="nowhere::op: check: expected to find the op in another"
    ):
        find({"op": "nowhere::op", "module": "json"}, frameworks=())


def test_a_module_that_checks_its_op_when_it_is_imported_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "checks_itself.py"
    script.write_text(
        "import graphffi\nfrom graphffi.testing import check\n"
        "op = graphffi.define_op('checks::itself', schema='(Tensor x) -> Tensor',\n"
        "    kernel=lambda x, out: None, infer=graphffi.like)\n"
        "check(op)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert "check: expected no call from its module's import, got one; put it behind" in done.stderr


def test_only_ops_are_checked() -> None:
    with pytest.raises(TypeError, match=r"graphffi\.testing: check: expected an op, got int 3"):
        check(3)  # type: ignore[arg-type]

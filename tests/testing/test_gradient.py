# SPDX-License-Identifier: Apache-2.0
"""Gradient and forward-mode rules are compared with finite differences, in each kind of call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

from graphffi.testing._case import Case, View
from graphffi.testing._examine import Examination, Options
from graphffi.testing._gradients.differences import differentiable
from graphffi.testing._guarded import Outcome
from graphffi.testing._worker import find_op

HERE = Path(__file__).resolve().parent
KINDS = ["bfloat16", "float16", "complex64", "complex128", "mixed", "bytes"]


def of_rules(name: str, path: str, **options: Any) -> dict[str, list[str]]:
    """The arguments with findings and the texts of notes of one rule's step in a framework."""
    framework = path.partition(".")[0]
    pytest.importorskip(framework)
    found: dict[str, list[str]] = {"begin": [], "finding": [], "note": []}

    def say(event: str, **what: Any) -> None:
        if event == "begin" and json.loads(what["key"])[0] != path:
            return
        if event in found:
            found[event].append(what["text"] if event == "note" else what["arguments"])

    file = str(HERE / "rule_ops.py")
    op = find_op({"op": f"rules::{name}", "module": "rule_ops", "file": file})
    examination = Examination(op, Options(frameworks=[framework], **options), say)
    for step, run in examination._framework_steps(examination.cases()):
        if step == path:
            run()
    return found


PATHS = ["jax.grad", "jax.jvp", "torch.grad", "torch.jvp"]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["fixed_scale", *(f"wrong_{kind}" for kind in KINDS)])
def test_a_wrong_rule_is_found(name: str, path: str) -> None:
    found = of_rules(name, path)
    assert found["finding"], found
    if name == "fixed_scale":  # it is right for the default
        assert {text.rpartition("s=")[2] for text in found["finding"]} == {
            *("0.0", "1.0", "-1.5", "0.001", "3.0")
        }


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["right_scale", *(f"right_{kind}" for kind in KINDS)])
def test_nothing_is_found_in_a_right_rule(name: str, path: str) -> None:
    found = of_rules(name, path)
    assert (found["finding"], found["note"]) == ([], [])
    assert len(found["begin"]) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("path", ["jax.grad", "torch.grad"])
@pytest.mark.parametrize(
    ("name", "sign"), [("right_flip", ""), ("unflipped", "=True"), ("wrong_absent", "w=None")]
)
def test_a_rule_that_forgets_an_argument_is_found(name: str, sign: str, path: str) -> None:
    found = of_rules(name, path)["finding"]
    assert bool(found) == bool(sign)
    assert all(sign in arguments for arguments in found), found


@pytest.mark.parametrize("path", ["jax.jvp", "torch.jvp"])
def test_a_function_without_complex_derivative_is_differentiated(path: str) -> None:
    found = of_rules("right_modulus", path)
    assert (found["finding"], len(found["begin"])) == ([], 6)


@pytest.mark.parametrize("path", ["jax.grad", "torch.grad"])
def test_large_operands_of_a_user_are_differentiated(path: str) -> None:
    cases = [{"x": ((70, 71), "float32"), "s": 3.0}]
    arguments = "x=float32[70, 71], s=3.0"
    assert of_rules("fixed_scale", path, cases=cases)["finding"] == [arguments]
    found = of_rules("right_scale", path, cases=cases)
    assert (found["finding"], found["begin"]) == ([], [arguments])


@pytest.mark.parametrize("path", ["jax.grad", "torch.grad"])
@pytest.mark.parametrize("name", ["coarse", "undefined"])
def test_a_rule_that_cannot_be_checked_is_noted(name: str, path: str) -> None:
    found = of_rules(name, path)
    assert (found["begin"], found["finding"]) == ([], [])
    text = "no input has operands and finite results of floats of 16 bits or more"
    assert found["note"] == [f"{path}: not checked: {text}"]


def _chosen(cases: Sequence[Case]) -> list[Case]:
    outcomes = {c: Outcome([np.zeros(1, "float32")], ["y"], []) for c in cases}
    return differentiable(cases, outcomes)


def test_each_value_of_an_argument_is_differentiated() -> None:
    x = View("float32", (2,))
    plain = Case((View("float32", (1,)), x), (1.0, 2))
    others = [
        *(Case((x, View("float64", (5,))), (1.0, 2)), Case((x, None), (1.0, 2))),
        *(Case((x, (x, x)), (1.0, 2)), Case((x, x), (0.5, 2)), Case((x, x), (1.0, 3))),
    ]
    sizes = [Case((View("float32", (n,)), x), (1.0, 2)) for n in range(9, 2, -1)]
    assert set(_chosen([plain, *sizes, *others])[:6]) == {plain, *others}
    strided = Case((View("float32", (2,), (2,)), x), (7.0, 2))
    assert _chosen([strided, Case((View("int32", (2,)), None), (1.0, 2))]) == []

# SPDX-License-Identifier: Apache-2.0
"""Conditions of sizes: what guards say, as calls of exported programs check it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import graphffi_torch._C as _C
from graphffi.plugin import describe
from graphffi_torch._export.guard_text import Conditions, SizeGuard, UnreadableGuardError

NAMES = {"L['x']": "x", "L['half']": "half"}

TEXTS = [
    "(1 + L['x'].size()[0]) // 2 == L['x'].size()[1]",
    "(-7 + L['x'].size()[0]) // 3 == -2",
    "(-7 + L['x'].size()[0]) % 3 == 2",
    "L['x'].size()[0] // (L['x'].size()[1] - 2) != 5",
    "L['x'].size()[0] % -L['x'].size()[1] < -1",
    "min(4, L['x'].size()[0], L['x'].size()[1]) <= max(3, L['x'].size()[1] * 2)",
    "math.trunc(1.5*torch.sym_float(L['x'].size()[0])) >= L['x'].size()[1] + 4",
    "L['x'].size()[0] == 3 or (L['x'].size()[0] > 4 and not L['x'].size()[1] == 2)",
    "1 < L['x'].size()[0] < L['x'].size()[1] <= 5",
    "abs(L['x'].size()[0] - L['x'].size()[1]) < 3",
    "L['x'].size()[0] ** 2 > 3 * L['x'].size()[1]",
    "s1 ** 2 + s0 // 2 == 4",
    "L['x'].size()[0] / L['x'].size()[1] > 1.5",
    "L['x'].size()[0] / (L['x'].size()[1] - 2) >= 2",
    "torch.sym_float(L['x'].size()[0]) // 2.5 == 1.0",
    "math.floor(L['x'].size()[0] / 2) == math.ceil(L['x'].size()[0] / 3)",
    "torch.sym_float(L['x'].size()[0]) ** 0.5 < 2.0",
    "max(1, 1.5 * L['x'].size()[0]) % 2 == 1.0",
    "(L['x'].size()[0] + L['x'].size()[1] + 3) // 4 <= 2",
    "L['x'].size()[0] * 2 ** 62 < 9223372036854775807",
]


def holds(conditions: Any, *tensors: torch.Tensor) -> bool:
    return not conditions.find_broken(tensors, describe)


@pytest.mark.parametrize("text", TEXTS)
def test_conditions_mean_what_python_does(text: str) -> None:
    guard = SizeGuard.read(text, NAMES, {"s0": "x.shape[0]", "s1": "x.shape[1]"})
    program = Conditions(["x"])
    program.check_guard(guard)
    conditions = _C.Conditions(program.text)
    for a in range(12):
        for b in range(1, 7):
            x = torch.empty(a, b)
            try:
                expected = eval(guard.text, {"floor": math.floor, "ceil": math.ceil, "x": x})
            except ZeroDivisionError:
                expected = False
            if "2 ** 62" in guard.text and a > 1:
                expected = False  # more than 64 bits
            assert holds(conditions, x) == expected, (guard.text, a, b)


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("x.shape[0] == 1 or 4 // (x.shape[0] - 1) == 2", [1], True),
        ("x.shape[0] == 1 or 4 // (x.shape[0] - 1) == 2", [3], True),
        ("x.shape[0] == 2 or 4 // (x.shape[0] - 1) == 2", [1], False),
        ("x.shape[0] != 1 and 4 // (x.shape[0] - 1) == 2", [1], False),
        ("x.shape[0] == 2 and x.shape[1] == 3", [2], True),
        ("x.shape[0] == 2 and x.shape[1] == 3", [3], False),
        ("x.shape[0] == 2 or x.shape[1] == 3", [3], True),
        ("4 // (x.shape[0] - 2) == x.shape[1]", [2], False),
        ("not x.shape[1] == 3", [2], True),
        ("x.shape[0] ** 70 > 0", [2], False),
        ("-x.shape[0] ** 63 < 0", [2], False),
    ],
)
def test_what_has_no_value_is_as_in_python(text: str, shape: list[int], expected: bool) -> None:
    """A dimension that a tensor lacks is the error of the op that gets it."""
    program = Conditions(["x"])
    program.check_guard(SizeGuard(text, ("x",)))
    assert holds(_C.Conditions(program.text), torch.empty(shape)) is expected


@pytest.mark.parametrize(
    ("checks", "shape", "broken"),
    [
        ("ndim 0, const 2, eq", [2, 3], None),
        ("ndim 0, const 2, eq", [2], 0),
        ("ndim 0, const 2, eq; ndim 0, const 1, eq", [2, 3], 1),
        ("ndim 0, const 2, eq; size 0 1, const 3, eq", [2, 3], None),
        ("ndim 0, const 2, eq; size 0 1, const 3, eq", [2, 4], 1),
        ("ndim 0, const 2, eq; size 0 1, const 3, ge", [2, 4], None),
        ("ndim 0, const 2, eq; size 0 1, const 3, ge", [2, 2], 1),
        ("ndim 0, const 2, eq; size 0 0, size 0 1, eq", [3, 3], None),
        ("ndim 0, const 2, eq; size 0 0, size 0 1, eq", [3, 2], 1),
        ("ndim 0, const 2, eq; size 0 2, const 3, eq", [2, 4], None),
        ("ndim 0, const 2, eq; size 0 0, const 3, lt", [3, 4], 1),
        ("size 0 0, const 3, eq", [4], 0),
        ("dtype 7, const 0, ge", [4], 0),
        ("dtype 7, const -1, eq", [4], None),
        ("dtype 2147483647, const 0, eq", [4], 0),
        ("ndim 2147483647, const 0, eq", [4], None),
    ],
)
def test_comparisons_hold_as_their_values_say(
    checks: str, shape: list[int], broken: int | None
) -> None:
    lines: list[str] = []
    for i, check in enumerate(checks.split("; ")):
        left, right, comparison = check.split(", ")
        lines += [left, right, f"{comparison} {3 * i} {3 * i + 1}"]
        lines.append(f"check {3 * i + 2} ValueError {i}")
    found = _C.Conditions("\n".join(lines)).find_broken([torch.empty(shape)], str)
    assert found == ("" if broken is None else str(broken))


@pytest.mark.parametrize(
    "text", ["add 0 0", "const", "const 1\ncheck 1 ValueError x", "const 1.5\nboth 0 0"]
)
def test_text_that_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(RuntimeError, match="a shape program does not parse at offset"):
        _C.Conditions(text)


@pytest.mark.parametrize(
    "text",
    ["round(1)", "abs(1, 2)", "floor()", "min(1)", "int(x=1)", "1 in 2", "x.ndim", "1 << 2", "1j"],
)
def test_guards_of_other_forms_are_unreadable(text: str) -> None:
    with pytest.raises(UnreadableGuardError):
        Conditions(["x"]).value(text)

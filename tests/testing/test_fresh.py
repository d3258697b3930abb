# SPDX-License-Identifier: Apache-2.0
"""A check makes calls in another order, in a process in which no kernel ran."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from graphffi.testing import find
from graphffi.testing._examine import Examination, Options
from graphffi.testing._worker import find_op

FILE = str(Path(__file__).resolve().parent / "late_ops.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aborts", "expected what it gives after other calls, got SIGABRT"),
        (
            "raises",
            "expected what it gives after other calls, got RuntimeError: expected a table, got "
            "none",
        ),
        ("doubles", "result 'out': expected "),
    ],
)
def test_a_first_call_that_goes_wrong_is_found(name: str, text: str) -> None:
    target = {"op": f"late::{name}", "module": "late_ops", "file": FILE}
    report = find(target, frameworks=())
    (finding,) = report.findings
    assert (finding.kind, report.notes) == ("state", [])
    assert finding.text.startswith(text)
    assert finding.arguments.startswith("x=float32[")
    assert int(finding.arguments[10:-1]) > 8  # the call that is wrong
    command = [sys.executable, "-c", finding.script]
    result = subprocess.run(command, capture_output=True, text=True)
    assert f"state (numpy): {text}" in result.stdout, result.stderr


def test_a_process_with_threads_is_noted() -> None:
    notes: list[str] = []

    def say(event: str, **what: str) -> None:
        notes.extend([what["text"]] if event == "note" else [])

    op = find_op({"op": "late::doubles", "module": "late_ops", "file": FILE})
    examination = Examination(op, Options(frameworks=()), say, fresh=None)
    cases = examination.cases()
    assert [name for name, _ in examination._steps(cases)].count("fresh") == 0
    assert notes == ["fresh: not checked, because threads run where the module is imported"]

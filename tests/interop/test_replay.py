# SPDX-License-Identifier: Apache-2.0
"""How replay compares: the recorded kernel and the replayed one are of modules of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest

import graphffi
from tests.interop.recorded import replay

MODULE = """
import sys

import numpy as np

import graphffi


def told(x, y):
    y = np.from_dlpack(y)
    print("told", flush=True)
    sys.stdout.buffer.write(b"\\xff")
    {body}


graphffi.register_global_func("recorded.told", told, override=True)
"""
PROGRAM = """
import contextlib

import numpy as np

import graphffi
import recorded_module

x = np.ones(2, np.float32)
with graphffi.record("records", level=3, limit={limit}), contextlib.suppress(Exception):
    graphffi.call_tvm_ffi("recorded.told", x, out=graphffi.empty(({size},), "float32"))
"""


class Replayed(Protocol):
    """Records a call of a kernel with one body, and replays it with another."""

    def __call__(
        self, recorded: str, replayed: str, *, limit: int = 1 << 30, size: int = 2
    ) -> tuple[int, dict[str, Any]]: ...


@pytest.fixture
def replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replayed:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(
        recorded: str, replayed: str, *, limit: int = 1 << 30, size: int = 2
    ) -> tuple[int, dict[str, Any]]:
        for name, body in (("recorded_module", recorded), ("replayed_module", replayed)):
            (tmp_path / f"{name}.py").write_text(MODULE.format(body=body))
        environment = os.environ | {"GRAPHFFI_RUNTIME": graphffi.runtime_info().path}
        code = PROGRAM.format(limit=limit, size=size)
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
        return replay(tmp_path / "records", "--import", "replayed_module")

    return run


@pytest.mark.parametrize(
    ("recorded", "again", "problem"),
    [
        ("1", "1", ""),
        ("float('nan')", "float('nan')", ""),
        ("[1, ['ü']]", "[1, ['ü']]", ""),
        ("graphffi.Shape([2])", "graphffi.Shape([2])", ""),
        ("np.ones((2, 3)).T", "np.ones((2, 3)).T", ""),
        ("None", "None", ""),
        ("1", "2", "returned: expected 1, got 2"),
        ("1", "True", "returned: expected 1, got True"),
        ("0.0", "-0.0", "returned: expected 0.0, got -0.0"),
        ("None", "0", "returned: expected None, got 0"),
        ("[1, 2]", "[1]", "returned: expected [1, 2], got"),
        ("[1, 2]", "[1, 3]", "returned.1: expected 2, got 3"),
        ("np.ones(6)", "np.ones((2, 3))", "returned: expected float64[6], got float64[2, 3]"),
        ("np.ones(6)", "1", "returned: expected a tensor, got 1"),
        ("np.ones(2)", "np.zeros(2)", "returned: expected the recorded bytes, got 4 of 16"),
    ],
)
def test_values_that_kernels_return_are_compared(
    recorded: str, again: str, problem: str, replayed: Replayed
) -> None:
    status, found = replayed(f"y[...] = 1; return {recorded}", f"y[...] = 1; return {again}")
    assert (status, found["outcome"]) == ((1, "differs") if problem else (0, "same")), found
    assert problem in found["text"]


@pytest.mark.parametrize(
    ("recorded", "again", "outcome"),
    [
        ("ValueError('size 8 is bad')", "ValueError('size 8 is bad')", "same"),
        ("KeyError('ü')", "KeyError('ü')", "same"),
        ("type('Own', (Exception,), {})()", "type('Own', (Exception,), {})()", "same"),
        ("ValueError('size 8 is bad')", "TypeError('size 8 is bad')", "error"),
        ("ValueError('size 8 is bad')", "ValueError('size 8')", "error"),
        ("ValueError('size 8 is bad')", "AssertionError()", "error"),
    ],
)
def test_errors_are_the_same_if_kind_and_message_are(
    recorded: str, again: str, outcome: str, replayed: Replayed
) -> None:
    status, found = replayed(f"raise {recorded}", f"raise {again}")
    assert (status, found["outcome"]) == (int(outcome == "error"), outcome), found
    assert (found["text"] == found["recorded"]) is (outcome == "same")


@pytest.mark.parametrize(
    ("recorded", "again", "outcome", "text"),
    [
        (
            "y[...] = 1; return 3",
            "y[...] = 2; return 3",
            "ran",
            "the record has no contents of argument 1",
        ),
        ("y[...] = 1; return 3", "y[...] = 2; return 4", "differs", "returned: expected 3, got 4"),
        (
            "y[...] = 1; return [3, np.ones(99)]",
            "y[...] = 1; return [3, np.zeros(99)]",
            "ran",
            "the record has no contents of argument 1, returned.1",
        ),
        (
            "y[...] = 1; return np.ones(99)",
            "y[...] = 1; return np.ones(9)",
            "differs",
            "returned: expected float64[99], got float64[9]",
        ),
    ],
)
def test_a_result_without_recorded_contents_is_not_the_same(
    recorded: str, again: str, outcome: str, text: str, replayed: Replayed
) -> None:
    status, found = replayed(recorded, again, limit=1000, size=99)
    assert (status, found["outcome"]) == (int(outcome == "differs"), outcome), found
    assert found["text"].endswith(text)


def test_an_object_that_is_returned_is_not_the_same(replayed: Replayed) -> None:
    """The record has its type only."""
    body = "y[...] = 1; return graphffi.Function(len)"
    status, found = replayed(body, body)
    assert (status, found["outcome"]) == (0, "ran"), found
    assert found["text"].endswith("the record has no contents of returned")

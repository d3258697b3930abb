# SPDX-License-Identifier: Apache-2.0
"""`graphffi check` on kernels that read and write memory of a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi.testing import find

torch = pytest.importorskip("torch")
pytest.importorskip("graphffi_torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU for torch")

OPS = Path(__file__).resolve().parent / "checked_ops.cu"
FAULTS = {
    "writes_after": "out of bounds",
    "leaves_last": "unwritten",
    "writes_operand": "undeclared write",
    "faults_on_seven": "crash",
}


@pytest.fixture(scope="module")
def checked(library: str) -> str:
    """The library of ops that describe themselves; `library` says if there is no nvcc."""
    return graphffi.cpp.build("checked_ops", [OPS])


def _found(checked: str, name: str, **options: Any) -> Any:
    target = {"op": f"checked::{name}", "library": checked}
    return find(target, device="cuda", budget=90, patience=60, **options)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_memory_of_the_gpu_is_found(checked: str, name: str) -> None:
    report = _found(checked, name, frameworks=())
    assert FAULTS[name] in {finding.kind for finding in report.findings}, str(report)


@pytest.mark.parametrize("frameworks", [(), ("torch",), ("jax",)], ids=str)
def test_nothing_is_found_in_a_correct_kernel(checked: str, frameworks: tuple[str, ...]) -> None:
    report = _found(checked, "doubles", frameworks=frameworks)
    assert not report.findings, str(report)
    assert report.num_cases > 5, str(report)


def test_the_script_of_a_finding_shows_it_again(checked: str) -> None:
    report = _found(checked, "leaves_last", frameworks=())
    (finding,) = (one for one in report.findings if one.kind == "unwritten")
    done = subprocess.run([sys.executable, "-c", finding.script], capture_output=True, text=True)
    assert "unwritten (cuda): " in done.stdout, done.stderr

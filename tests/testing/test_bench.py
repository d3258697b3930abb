# SPDX-License-Identifier: Apache-2.0
"""``graphffi bench`` measures an op beside the framework's own way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi

pytest.importorskip("numpy")

HERE = Path(__file__).resolve().parent


def bench(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "graphffi", "bench", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout or done.stderr


@pytest.fixture(scope="module")
def library() -> str:
    return graphffi.cpp.build("fault_ops", [HERE / "faults.cc"], extra_cflags=["-O1"])


@pytest.mark.slow
def test_an_op_is_measured_on_every_path(library: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    status, output = bench(f"{library}:good_scale", "--namespace", "faults", "--json")
    assert status == 0, output
    rows: list[dict[str, Any]] = json.loads(output)
    assert [r["path"] for r in rows] == ["numpy", "torch", "torch.compile", "jax", "jax.jit"]
    assert all(row["op"] == "faults::good_scale" and row["call"] > 0 for row in rows)
    for row in rows[1:3]:
        assert (row["name"], row["ratio"] > 0) == ("torch.library.custom_op", True)


@pytest.mark.slow
def test_an_op_that_updates_its_operand_is_measured(library: str) -> None:
    pytest.importorskip("torch")
    target = f"{library}:good_append"
    status, output = bench(target, "--namespace", "faults", "--frameworks", "torch")
    assert status == 0, output
    head, host, eager, compiled = output.splitlines()
    assert head.startswith("faults::good_append(cache=float32[")
    assert host.split()[0] == "numpy"
    assert "torch.library.custom_op" in eager
    assert "ratio" in compiled


def test_an_op_that_takes_no_input_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "takes_none.py").write_text(
        "import graphffi\n"
        "def kernel(x, out):\n"
        "    raise ValueError('expected another one')\n"
        "op = graphffi.define_op('bench::takes_none', schema='(Tensor x) -> Tensor',\n"
        "    infer=graphffi.like, kernel=kernel)\n"
    )
    status, output = bench("takes_none")
    assert status == 1
    assert "the last one was refused: expected another one" in output


def test_an_unknown_op_is_refused(library: str) -> None:
    status, output = bench(f"{library}:none", "--json")
    assert status == 1
    assert "graphffi bench: " in json.loads(output)["error"]

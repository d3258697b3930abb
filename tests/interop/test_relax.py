# SPDX-License-Identifier: Apache-2.0
"""Apache TVM's virtual machine for Relax, on the runtime of this run, without TVM's Python."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
HERE = Path(__file__).resolve().parent


def run(script: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-W", "ignore", str(HERE / script), *arguments]
    inherited = {k: v for k, v in os.environ.items() if k != "GRAPHFFI_RUNTIME"}
    result = subprocess.run(
        command, env=inherited | environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_relax_program_runs_on_this_runtime(tmp_path: Path) -> None:
    library = str(tmp_path / "affine.so")
    tvm = importlib.util.find_spec("tvm")
    if tvm is None or tvm.origin is None:
        pytest.skip("apache-tvm is not installed")
    run("export_relax.py", library)
    chosen = os.environ.get("GRAPHFFI_RUNTIME", "bundled")
    runtime = str(Path(tvm.origin).parent / "lib/libtvm_runtime.so")
    assert run("run_relax.py", runtime, library, GRAPHFFI_RUNTIME=chosen).strip()

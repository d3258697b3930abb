# SPDX-License-Identifier: Apache-2.0
"""The fuzz targets, each for a fixed number of seeded runs; `make sanitize` builds them.

What fails is in ``crash-input`` of the folder that the failure names: give it to the program to
run it again, and add it to the corpus once the program survives it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from toolchain import ROOT, SANITIZE

HERE = Path(__file__).resolve().parent
PROGRAMS = ROOT / "build/sanitize/address/tests/fuzz"
TARGETS = sorted(folder.name for folder in (HERE / "corpus").iterdir())
RUNS = int(os.environ.get("GRAPHFFI_FUZZ_RUNS", "20000"))

pytestmark = pytest.mark.skipif(SANITIZE != "address", reason="part of make sanitize")


def fuzz(target: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a target; new inputs of libFuzzer, and what fails, go into the folder."""
    command = [str(PROGRAMS / f"fuzz_{target}"), "-seed=1", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("target", TARGETS)
def test_target(target: str, tmp_path: Path) -> None:
    found = tmp_path / "found"
    found.mkdir()
    result = fuzz(target, tmp_path, f"-runs={RUNS}", str(found), str(HERE / "corpus" / target))
    assert result.returncode == 0, f"{tmp_path}\n{result.stderr}"


def test_every_target_has_a_corpus() -> None:
    targets = {path.stem.removeprefix("fuzz_") for path in (HERE / "cpp").glob("fuzz_*.cc")}
    assert targets - {"planted"} == set(TARGETS)
    assert all(any((HERE / "corpus" / target).iterdir()) for target in TARGETS)


def test_a_planted_defect_is_found(tmp_path: Path) -> None:
    result = fuzz("planted", tmp_path, "-runs=200000")
    assert result.returncode != 0
    assert "heap-buffer-overflow" in result.stderr
    [saved] = tmp_path.glob("crash-*")
    assert saved.read_bytes()[:3] == b"ffi"
    again = fuzz("planted", tmp_path, str(saved))
    assert again.returncode != 0

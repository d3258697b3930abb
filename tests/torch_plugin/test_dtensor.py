# SPDX-License-Identifier: Apache-2.0
"""Ops on tensors that are split between processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("dtensor_worker.py")


@pytest.mark.slow
def test_calls_keep_splits_along_free_dimensions_and_no_others(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(WORKER)]
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        for worker in workers:
            _, errors = worker.communicate(timeout=300)
            assert worker.returncode == 0, errors
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()  # closes the pipe

# SPDX-License-Identifier: Apache-2.0
"""A check's limit counts what a process computes, not how long others kept it waiting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from graphffi.testing._processes import hang as _hang

# Computes for a moment in a child, says so, and waits for both to be ended.
BUSY = """
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.4: pass\\nprint(flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", burn], stdin=0)
input()
"""


@pytest.mark.parametrize(
    ("seconds", "is_over"),
    [
        pytest.param([0, 2, 4, 6], [False, False, False], id="gets a tenth of a core"),
        pytest.param([0, 19, 38], [False, True], id="computes"),
        pytest.param([5, 8, 8.1], [False, True], id="waits"),
    ],
)
def test_a_step_hangs_that_used_its_time_or_waits(
    monkeypatch: pytest.MonkeyPatch, seconds: Sequence[float], is_over: list[bool]
) -> None:
    times = iter(seconds)
    monkeypatch.setattr(_hang, "processor_time", lambda _: next(times))
    limit = _hang.Limit(1, 20.0)
    assert [limit.is_over() for _ in is_over] == is_over


def test_processes_that_a_process_started_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert _hang.processor_time(process.pid) >= 0.3
        process.communicate("\n\n")

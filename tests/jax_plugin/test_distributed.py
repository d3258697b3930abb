# SPDX-License-Identifier: Apache-2.0
"""Programs of two processes, which talk through gloo: each runs kernels on its own parts."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_two_processes_run_a_call_on_their_own_parts(library: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    script = Path(__file__).with_name("distributed.py")
    with contextlib.ExitStack() as stack:
        processes = [
            subprocess.Popen(
                [sys.executable, script, library, address, str(i)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for i in range(2)
        ]
        for process in processes:
            stack.enter_context(process)
            stack.callback(process.kill)  # one that failed leaves the other waiting
        outputs = [process.communicate(timeout=120) for process in processes]
    assert [p.returncode for p in processes] == [0, 0], "\n".join(e for _, e in outputs)
    assert [out.splitlines()[-1] for out, _ in outputs] == ["[0, 2]", "[4, 6]"]

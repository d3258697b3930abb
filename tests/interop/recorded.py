# SPDX-License-Identifier: Apache-2.0
"""Records as tests read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import graphffi
from graphffi._command.record import Record, read_record


def replay(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "graphffi", "replay", str(folder), "--json", *arguments]
    environment = os.environ | {"GRAPHFFI_RUNTIME": graphffi.runtime_info().path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    text = done.stdout or done.stderr
    found: dict[str, Any] = json.loads(text)
    return done.returncode, found


def calls_of(folder: Path) -> Record:
    found = read_record(folder)
    found.calls = [c for c in found.calls if "crash" in c.begin["kernel"]]
    return found

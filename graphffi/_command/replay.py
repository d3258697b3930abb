# SPDX-License-Identifier: Apache-2.0
"""``graphffi replay``: runs a recorded call again, alone, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from .._values.runtime import runtime_info
from .outcome import Outcome
from .record import RecordedCall, error_of, read_record

_TIMEOUT: Final = 600.0  # seconds


def replay(
    path: str,
    number: int | None,
    process: int | None,
    modules: list[str],
    library: str | None,
) -> Outcome:
    """Runs a call again and compares.

    Args:
        path: Of the record.
        number: Of the call; None for the last that was under way, else the last.
        process: Which one's.
        modules: To import first: they register kernels.
        library: In place of the recorded one.

    Raises:
        ValueError: If there is no such call.
    """
    record = read_record(path)
    call = record.choose(number, process)
    with tempfile.TemporaryDirectory() as folder:
        found = _run(call, modules, library, folder)
    found["recorded"] = _recorded(call)
    found["notes"] = [*record.notes, *found.get("notes", [])]
    facts = {"call": call.number, "process": call.process, "op": call.name, **found}
    lines = [call.describe(), f"replay: {found['outcome']}: {found['text']}"]
    lines += [f"note: {note}" for note in found["notes"]]
    return Outcome(facts, lines, int(found["outcome"] not in ("same", "ran")))


def list_calls(path: str) -> Outcome:
    """One line for each call."""
    record = read_record(path)
    facts = [{"begin": call.begin, "end": call.end} for call in record.calls]
    return Outcome(facts, [call.describe() for call in record.calls] + record.notes)


def _recorded(call: RecordedCall) -> str:
    if call.end is None:
        return "under way"
    error = error_of(call.end)
    return "returned" if error is None else error


def _run(
    call: RecordedCall, modules: list[str], library: str | None, folder: str
) -> dict[str, Any]:
    """Runs it in a process that records what it does, into a folder."""
    level = call.header.get("level", 0)
    library = library and os.path.abspath(library)
    asked = {"stem": call.stem, "level": level, "begin": call.begin, "end": call.end,
             "modules": modules, "library": library, "path": sys.path,
             "folder": folder}  # fmt: skip
    environment = {**os.environ, "GRAPHFFI_RUNTIME": runtime_info().path}
    environment = {k: v for k, v in environment.items() if not k.startswith("GRAPHFFI_RECORD")}
    command = [sys.executable, "-m", "graphffi._command.replay_process"]
    try:
        done = subprocess.run(
            command,
            check=False,
            input=json.dumps(asked),
            env=environment,
            text=True,
            errors="replace",
            capture_output=True,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "hang", "text": f"no end after {_TIMEOUT:.0f} seconds"}
    lines = done.stdout.splitlines()
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        where = "the kernel" if "ready" in lines else "what prepares the call"
        return {"outcome": "crash", "signal": name, "text": f"{where} ended the process: {name}"}
    if done.returncode != 0 or not lines:
        last = (done.stderr.splitlines() or [f"status {done.returncode}"])[-1]
        return {"outcome": "ended", "text": f"the process ended: {last}"}
    found: dict[str, Any] = json.loads(lines[-1])
    _note_newer(call, found)
    return found


def _note_newer(call: RecordedCall, found: dict[str, Any]) -> None:
    library = Path(found.pop("library", ""))
    called = int(call.header.get("unix_time", 0)) + int(call.begin.get("at", 0))
    if library.is_file() and called and library.stat().st_mtime_ns > called:
        found.setdefault("notes", []).append(f"{library}: built after the call was recorded")

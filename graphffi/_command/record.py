# SPDX-License-Identifier: Apache-2.0
"""Records of calls: writing and reading them. Their format is described in docs/recording.md."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .. import _core
from .._values.describe import describe

_VERSION: Final = 1


@contextlib.contextmanager
def record(
    folder: str | os.PathLike[str], *, level: int = 1, limit: int = 1 << 30
) -> Iterator[None]:
    """Write down all calls of kernels in this process, as ``GRAPHFFI_RECORD`` does.

    Args:
        folder: For the files; it is made.
        level: 1: names, shapes, attributes and durations; 2: the range of tensors' elements, too;
            3: the elements themselves, so that `graphffi replay` gives what the call gave.
        limit: Bytes that the files of this process may have. Older ones are removed.

    Raises:
        RuntimeError: If the folder can't be written, or calls are recorded already.
        TypeError: If level or limit is no int.
        ValueError: For another level or limit, or a path that can't be one.
    """
    path = os.fspath(folder)
    if not path or "\0" in os.fsdecode(path):
        raise ValueError(f"graphffi: record: folder: expected a path, got {path!r}")
    kinds = (("level", level, "1, 2 or 3", 3), ("limit", limit, "1 to 2**63 - 1 bytes", 2**63 - 1))
    for name, value, expected, most in kinds:
        if not isinstance(value, int):
            raise TypeError(f"graphffi: record: {name}: expected an int, got {describe(value)}")
        if not 1 <= value <= most:
            raise ValueError(f"graphffi: record: {name}: expected {expected}, got {value}")
    _core.start_recording(os.path.abspath(path), level, limit)
    try:
        yield
    finally:
        _core.stop_recording()


@dataclass
class RecordedCall:
    """One call.

    Args:
        stem: Path of its files, without ending.
        header: Of the file.
        begin: What was written before the kernel ran.
        end: What was written afterwards; None for a call that was under way at the end.
    """

    stem: str
    header: dict[str, Any]
    begin: dict[str, Any]
    end: dict[str, Any] | None = None

    @property
    def number(self) -> int:
        """Counted in its process."""
        return int(self.begin["call"])

    @property
    def process(self) -> int:
        """Its number."""
        return int(self.header["process"])

    @property
    def name(self) -> str:
        """The name of the op, else of the kernel."""
        return str(self.begin["op"] or self.begin["kernel"])

    def describe(self) -> str:
        """One line."""
        arguments = ", ".join(describe_value(value) for value in self.begin["args"])
        if self.end is None:
            result = "under way"
        elif "error" in self.end:
            result = text_of(self.end["error"])
        else:
            result = f"{self.end['nanoseconds'] / 1000:.1f} us"
        return f"{self.process} {self.number} {self.name}({arguments}): {result}"


@dataclass
class Record:
    """The calls of a folder, or of one file.

    Args:
        calls: In the order of processes and of their beginning.
        notes: Of lines that can't be read.
    """

    calls: list[RecordedCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def choose(self, number: int | None, process: int | None) -> RecordedCall:
        """The call of that number; without one, the last that was under way, else the last.

        Raises:
            ValueError: If there is none, or several processes or recordings have one.
        """
        calls = [c for c in self.calls if process in (None, c.process)]
        if number is None:
            calls = [c for c in calls if c.end is None][-1:] or calls[-1:]
        else:
            calls = [c for c in calls if c.number == number]
        if not calls:
            asked = "a call" if number is None else f"call {number}"
            notes = "".join(f"; {note}" for note in self.notes)
            raise ValueError(f"graphffi replay: expected {asked} in the record, got none{notes}")
        if len(processes := list(dict.fromkeys(c.process for c in calls))) > 1:
            raise ValueError(
                f"graphffi replay: call {number}: expected one process, got "
                f"{', '.join(map(str, processes))}; choose one with --process"
            )
        if len(calls) > 1:  # each recording counts from 0
            files = ", ".join(f"{Path(c.stem).name}.jsonl" for c in calls)
            raise ValueError(
                f"graphffi replay: call {number}: expected one in process {processes[0]}, got "
                f"those of {files}; give one of these files in place of the folder"
            )
        return calls[0]


def read_record(path: str | os.PathLike[str]) -> Record:
    """Reads what was recorded in a folder, or in one of its ``.jsonl`` files.

    Raises:
        ValueError: If there is no record, or one of another version or byte order.
    """
    place = Path(path)
    files = sorted(place.glob("*.jsonl"), key=_order) if place.is_dir() else [place]
    if not files or not files[0].is_file():
        raise ValueError(f"graphffi: record: expected a folder with .jsonl files, got '{place}'")
    found = Record()
    for file in files:
        _read_file(file, found)
    return found


def _order(file: Path) -> tuple[float, str, int]:
    """By the time at which the process began, then by its files."""
    name, _, part = file.stem.rpartition(".")
    return (_int(name.rpartition("-")[2]), name, _int(part))


def _int(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _read_file(file: Path, found: Record) -> None:
    header: dict[str, Any] | None = None
    calls: dict[int, RecordedCall] = {}
    for i, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if not line:
            continue
        facts = _facts(line)
        if header is None:
            header = _checked_header(facts, file)
        elif _is_call(call := RecordedCall(str(file.with_suffix("")), header, facts)):
            calls[call.number] = call
        elif (
            _is_number(facts.get("end"))
            and _is_number(facts.get("nanoseconds"))
            and (facts["end"] in calls)
        ):
            calls[facts["end"]].end = facts
        else:
            found.notes.append(f"{file.name}: line {i}: expected a call, got {line[:40]!r}")
    if header is None:
        found.notes.append(f"{file.name}: expected a header, got an empty file")
    found.calls += calls.values()


def _is_call(call: RecordedCall) -> bool:
    """True if it has all that is shown of a call."""
    try:
        call.describe()
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
    return _is_number(call.begin["call"])


def _is_number(value: Any) -> bool:
    return type(value) is int


def _facts(line: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(line)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _checked_header(facts: dict[str, Any], file: Path) -> dict[str, Any]:
    expected = {"graphffi_record": _VERSION, "byte_order": sys.byteorder}
    got = {key: facts.get(key) for key in expected}
    if got != expected or not isinstance(facts.get("process"), int):
        raise ValueError(
            f"graphffi: record: {file.name}: expected a record of version {_VERSION} on a "
            f"{sys.byteorder}-endian machine, got {got['graphffi_record']} on {got['byte_order']}"
        )
    return facts


def error_of(opt_end: dict[str, Any] | None) -> str | None:
    """Kind and message of the error with which a call ended; None if it did not."""
    return text_of(opt_end["error"]) if opt_end is not None and "error" in opt_end else None


def text_of(value: Any) -> str:
    """A string of a record."""
    if isinstance(value, dict) and "utf8" in value:
        return bytes.fromhex(value["utf8"]).decode(errors="surrogateescape")
    return str(value)


def describe_value(value: Any) -> str:
    """A value of a record, for people."""
    if isinstance(value, list):
        return f"[{', '.join(map(describe_value, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if "tensor" not in value:
        return repr(text_of(value)) if "utf8" in value else str(next(iter(value.values()), value))
    text = f"{value['tensor']}{value['shape']}"
    text += f" strides {value['strides']}" if "strides" in value else ""
    text += f" on {value['device']}" if value["device"] != "cpu" else ""
    if "min" in value:
        text += f" in {describe_value(value['min'])} to {describe_value(value['max'])}"
    return text + "".join(f", {value[key]} {key}" for key in ("nan", "inf") if key in value)

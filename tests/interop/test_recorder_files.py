# SPDX-License-Identifier: Apache-2.0
"""Files of the recorder: which are kept, what is left out, damaged and foreign ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi._command.record import read_record
from tests.interop.recorded import calls_of, replay


def test_old_files_are_removed_and_the_call_under_way_is_kept(crash: Any, tmp_path: Path) -> None:
    x = np.ones(1000, np.float32)
    seen = []

    def inner(a: Any) -> None:
        for _ in range(100):
            crash(x)
        seen.append(sum(f.stat().st_size for f in tmp_path.iterdir()))

    outer = graphffi.Function(inner)
    with graphffi.record(tmp_path, level=3, limit=100_000):
        outer(np.zeros(3, np.float32))
    assert seen[0] <= 130_000
    first, *rest = read_record(tmp_path).calls
    assert first.number == 0
    assert first.end is not None
    assert 0 < len(rest) < 50
    status, found = replay(tmp_path, "--call", str(rest[-1].number))
    assert (status, found["outcome"]) == (0, "same"), found


def test_contents_beyond_the_limit_are_left_out(crash: Any, tmp_path: Path) -> None:
    with graphffi.record(tmp_path, level=3, limit=1000):
        crash(np.ones(1000, np.float32))
    (call,) = calls_of(tmp_path).calls
    assert "contents" not in call.begin["args"][0]
    assert call.begin["args"][0]["max"] == 1.0


@pytest.mark.parametrize("size", [2**40, 2**59])
@pytest.mark.parametrize("level", [2, 3])
def test_contents_that_no_memory_holds_are_left_out(tmp_path: Path, level: int, size: int) -> None:
    with graphffi.record(tmp_path, level=level):
        graphffi.Function(lambda _: None)(np.broadcast_to(np.float32(1), (size,)))
    (call,) = read_record(tmp_path).calls
    (argument,) = call.begin["args"]
    assert argument["shape"] == [size]
    assert not {"contents", "max"} & argument.keys()


def test_a_full_disk_ends_recording_and_nothing_else(crash_library: str, tmp_path: Path) -> None:
    code = "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    code += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "import graphffi, numpy, sys\n"
    code += "kernel = graphffi.load_module(sys.argv[1]).crash\n"
    code += "x = numpy.ones(64, numpy.float32)\n"
    code += "for _ in range(100): kernel(x, 2.0, x.copy())\n"
    env = os.environ | {"GRAPHFFI_RECORD": str(tmp_path), "GRAPHFFI_RECORD_LEVEL": "3"}
    command = [sys.executable, "-c", code, crash_library]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("calls are no longer recorded") == 1
    assert "cannot write" in done.stderr
    assert calls_of(tmp_path).calls


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"GRAPHFFI_RECORD": "/proc/nowhere"}, "cannot write '/proc/nowhere': No such file"),
        ({"GRAPHFFI_RECORD_LEVEL": "4"}, "level: expected 1, 2 or 3, got 4"),
        ({"GRAPHFFI_RECORD_LEVEL": str(2**32 + 1)}, "level: expected 1, 2 or 3, got 4294967297"),
        ({"GRAPHFFI_RECORD_LIMIT": "1G"}, "GRAPHFFI_RECORD_LIMIT: expected a number above 0, got"),
        ({"GRAPHFFI_NVTX": "/no/nvtx.so"}, "GRAPHFFI_NVTX: expected 0, 1 or a library of NVTX"),
        ({"GRAPHFFI_NVTX": "off"}, "GRAPHFFI_NVTX: expected 0, 1 or a library of NVTX, got 'off'"),
    ],
)
def test_wrong_variables_are_refused(tmp_path: Path, env: dict[str, str], problem: str) -> None:
    environment = os.environ | {"GRAPHFFI_RECORD": str(tmp_path / "new" / "folder")} | env
    command = [sys.executable, "-c", "import graphffi"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "ImportError: graphffi: " in done.stderr
    assert problem in done.stderr


def test_recording_twice_is_refused(tmp_path: Path) -> None:
    with (
        graphffi.record(tmp_path),
        pytest.raises(RuntimeError, match=r"record: expected no recording, got one in '.*'; end"),
        graphffi.record(tmp_path),
    ):
        pass
    with pytest.raises(ValueError, match="record: level: expected 1, 2 or 3, got 0"):
        graphffi.record(tmp_path, level=0).__enter__()
    with pytest.raises(ValueError, match=f"record: level: expected 1, 2 or 3, got {2**40}"):
        graphffi.record(tmp_path, level=2**40).__enter__()
    for limit in (0, 2**63):
        text = rf"record: limit: expected 1 to 2\*\*63 - 1 bytes, got {limit}"
        with pytest.raises(ValueError, match=text):
            graphffi.record(tmp_path, limit=limit).__enter__()
    with pytest.raises(TypeError, match="record: level: expected an int, got float nan"):
        graphffi.record(tmp_path, level=float("nan")).__enter__()  # type: ignore[arg-type]
    for path in ("", "a\0b"):
        with pytest.raises(ValueError, match="record: folder: expected a path, got "):
            graphffi.record(path).__enter__()


def test_a_call_of_two_recordings_is_chosen_by_its_file(crash: Any, tmp_path: Path) -> None:
    for n in (3, 4):
        with graphffi.record(tmp_path, level=3):
            crash(np.ones(n, np.float32))
    files = sorted(tmp_path.glob("*.jsonl"))
    status, found = replay(tmp_path, "--call", "0", "--process", str(os.getpid()))
    assert status == 1
    assert found["error"] == (
        f"graphffi replay: call 0: expected one in process {os.getpid()}, got those of "
        f"{files[0].name}, {files[1].name}; give one of these files in place of the folder"
    )
    for n, file in zip((3, 4), files, strict=True):
        (call,) = read_record(file).calls
        assert call.begin["args"][0]["shape"] == [n]
        assert read_record(file).choose(0, None) == call
    assert read_record(tmp_path).choose(None, None) == call  # the last


def test_a_call_of_two_processes_is_chosen_by_process(tmp_path: Path) -> None:
    for i, process in enumerate((7, 7, 8)):
        header = {"graphffi_record": 1, "byte_order": sys.byteorder, "process": process}
        begin = {"call": 0, "op": "a", "kernel": "b", "args": []}
        lines = json.dumps(header) + "\n" + json.dumps(begin)
        (tmp_path / f"{process}-{i}.0.jsonl").write_text(lines)
    with pytest.raises(ValueError, match="expected one process, got 7, 8; choose one with --proc"):
        read_record(tmp_path).choose(0, None)
    assert read_record(tmp_path).choose(0, 8).process == 8


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # JAX is there
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12
def test_a_child_of_fork_has_files_of_its_own(crash: Any, tmp_path: Path) -> None:
    x = np.ones(3, np.float32)
    with graphffi.record(tmp_path):
        crash(x)
        child = os.fork()
        if child == 0:
            try:
                crash(x)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        crash(x)
    processes = {call.process for call in calls_of(tmp_path).calls}
    assert processes == {os.getpid(), child}
    assert sum(call.process == child for call in calls_of(tmp_path).calls) == 1


def test_calls_of_many_threads_are_whole_lines(crash: Any, tmp_path: Path) -> None:
    def calls() -> None:
        for _ in range(50):
            crash(np.ones(5, np.float32))

    with graphffi.record(tmp_path, level=3):
        threads = [threading.Thread(target=calls) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = calls_of(tmp_path)
    assert found.notes == []
    assert len(found.calls) == 200
    assert all(call.end is not None for call in found.calls)
    assert len({call.number for call in found.calls}) == 200


def test_a_record_that_is_cut_off_or_holds_garbage_is_read_as_far_as_it_goes(
    crash: Any, tmp_path: Path
) -> None:
    with graphffi.record(tmp_path, level=3):
        crash(np.ones(3, np.float32))
        crash(np.ones(4, np.float32))
    (text,) = tmp_path.glob("*.jsonl")
    whole = text.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole), 7):
        text.write_bytes(whole[:cut])
        assert len(read_record(tmp_path).calls) <= 2
    wrong = [b"\xff\0garbage", b'{"call": 7}', b"[]", b'{"end": "x"}', b'{"end": []}']
    wrong += [b'{"end": 0, "nanoseconds": "x"}']
    common = b', "op": "a", "kernel": "b", "args": '
    wrong += [b'{"call": "x"' + common + b"[]}", b'{"call": 7' + common + b"5}"]
    wrong += [b'{"call": 7' + common + b'[{"tensor": "float32"}]}']
    text.write_bytes(whole + b"\n".join([*wrong, b""]))
    found = read_record(tmp_path)
    assert len(found.calls) == 2
    assert len(found.notes) == len(wrong)
    text.write_bytes(whole)
    (contents,) = tmp_path.glob("*.bin")
    contents.write_bytes(contents.read_bytes()[:20])
    status, answer = replay(tmp_path)
    assert (status, answer["outcome"]) == (1, "not replayed")
    assert "bytes at" in answer["text"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "expected a call in the record, got none; x.jsonl: expected a header, got an empty"),
        ('{"graphffi_record": 1, "byte_order": "big", "process": 1}', "got 1 on big"),
        ('{"graphffi_record": 2, "byte_order": "little", "process": 1}', "got 2 on little"),
        ("garbage", "got None on None"),
    ],
)
def test_a_foreign_record_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "x.jsonl").write_text(line)
    status, found = replay(tmp_path)
    assert status == 1
    assert problem in found["error"]


def test_no_record_is_an_error(tmp_path: Path) -> None:
    status, found = replay(tmp_path)
    assert status == 1
    assert "expected a folder with .jsonl files" in found["error"]

# SPDX-License-Identifier: Apache-2.0
"""GRAPHFFI_RECORD writes calls down before they run, on every path; replay runs them again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi import Tensor
from graphffi._command.record import Record, read_record
from tests import warm_python

HERE = Path(__file__).resolve().parent
FAST = ("numpy", "function", "torch", "jitted")


@pytest.fixture(scope="module")
def library() -> str:
    return graphffi.cpp.build("crash", sources=[HERE / "crash.cc"])


@pytest.fixture(scope="module")
def crash(library: str) -> Any:
    @graphffi.op("recorded::crash", kernel=f"{library}::crash", plan="x, scale, out")
    def op(x: Tensor, scale: float = 2.0) -> Tensor:
        return graphffi.like(x)

    return op


def run(
    library: str, folder: Path, path: str, first: int, **env: str
) -> subprocess.CompletedProcess[str]:
    recording = {"GRAPHFFI_RECORD": str(folder), "GRAPHFFI_RECORD_LEVEL": "3", **env}
    script = [sys.executable, str(HERE / "recorded_calls.py"), library, path, str(first)]
    environment = os.environ | {"GRAPHFFI_RUNTIME": graphffi.runtime_info().path} | recording
    if path in ("torch", "compiled"):
        return warm_python.run(script, env=environment)
    return subprocess.run(script, env=environment, capture_output=True, text=True, timeout=600)


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


@pytest.mark.parametrize("path", [*FAST, pytest.param("compiled", marks=pytest.mark.slow)])
def test_a_crash_leaves_the_call_behind_and_replay_crashes_the_same(
    library: str, tmp_path: Path, path: str
) -> None:
    done = run(library, tmp_path, path, -1)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    *_, good, bad = calls_of(tmp_path).calls
    assert good.end is not None
    assert bad.end is None
    assert bad.name == ("crash" if path == "function" else "recorded::crash")
    x, scale, _ = bad.begin["args"]
    assert (x["tensor"], x["shape"], x["min"], x["max"], scale) == ("float32", [4], -1.0, 4.0, 2.0)
    status, found = replay(tmp_path)
    assert (status, found["outcome"], found["signal"]) == (1, "crash", "SIGSEGV")
    assert found["call"] == bad.number
    status, found = replay(tmp_path, "--call", str(good.number))
    assert (status, found["outcome"]) == (0, "same"), found
    assert "equal in every bit" in found["text"]


def test_calls_of_two_threads_are_both_under_way(library: str, tmp_path: Path) -> None:
    done = run(library, tmp_path, "threads", -2)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    one, other = [c for c in calls_of(tmp_path).calls if c.end is None]
    assert one.begin["thread"] != other.begin["thread"]


def test_an_error_is_written_down_and_comes_again(library: str, tmp_path: Path) -> None:
    done = run(library, tmp_path, "numpy", -3)
    assert "ValueError: crash: expected no -3" in done.stderr
    (*_, failed) = calls_of(tmp_path).calls
    assert failed.end is not None
    assert failed.end["error"] == "ValueError: crash: expected no -3"
    status, found = replay(tmp_path, "--call", str(failed.number))
    assert (status, found["outcome"]) == (0, "same")
    assert found["recorded"] == "ValueError: crash: expected no -3"


def test_levels_say_how_much_is_written(crash: Any, tmp_path: Path) -> None:
    x = np.array([1, np.nan, np.inf, 4], np.float32)
    for level in (1, 2, 3):
        with graphffi.record(tmp_path / str(level), level=level):
            crash(x, 0.5)
    (one,), (two,), (three,) = (calls_of(tmp_path / str(n)).calls for n in (1, 2, 3))
    for call in (one, two, three):
        assert call.end is not None
        assert call.end["nanoseconds"] > 0
        assert call.begin["args"][1] == 0.5
    assert "min" not in one.begin["args"][0]
    infinite = {"float": "inf"}
    expected = {"min": 1.0, "max": infinite, "nan": 1, "inf": 1}
    assert expected.items() <= two.begin["args"][0].items()
    assert "contents" not in two.begin["args"][0]
    assert "contents" in three.begin["args"][0]
    assert three.end is not None
    assert three.end["written"]["2"]["contents"][1] == 16
    status, found = replay(tmp_path / "1")
    assert (status, found["outcome"]) == (0, "ran")
    assert found["notes"] == ["argument 0: contents were not recorded: zeros"]


def test_replay_puts_operands_where_they_were(library: str, tmp_path: Path) -> None:
    kernel = graphffi.load_module(library).crash
    both = np.arange(10, dtype=np.float32)
    with graphffi.record(tmp_path, level=3):
        kernel(both[:6], 2.0, both[3:9])  # it reads what it wrote
    assert both.tolist() == [0, 1, 2, 0, 2, 4, 0, 4, 8, 9]
    status, found = replay(tmp_path)
    assert (status, found["outcome"]) == (0, "same"), found


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("made", ["numpy", "graphffi"])
def test_tensors_without_elements_are_compared(
    library: str, tmp_path: Path, level: int, made: str
) -> None:
    kernel = graphffi.load_module(library).crash
    x = np.zeros((0, 3), np.float32)
    tensors = [x, x.copy()]
    if made == "graphffi":  # without memory
        torch = pytest.importorskip("torch")
        tensors = [torch.empty(0, 3), torch.empty(0, 3)]
    with graphffi.record(tmp_path, level=level):
        kernel(tensors[0], 2.0, tensors[1])
    status, found = replay(tmp_path)
    assert (status, found["outcome"], found["notes"]) == (0, "same", []), found


def test_a_call_without_tensors_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "no_tensors.py").write_text(
        "import graphffi\n"
        "graphffi.register_global_func('recorded.nothing', lambda x: None, override=True)\n"
    )
    code = (
        "import graphffi, no_tensors\n"
        "with graphffi.record('records', level=3):\n"
        "    graphffi.get_global_func('recorded.nothing')(1)\n"
    )
    environment = os.environ | {"GRAPHFFI_RUNTIME": graphffi.runtime_info().path}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
    status, found = replay(tmp_path / "records", "--import", "no_tensors")
    assert (status, found["outcome"]) == (0, "same"), found


def test_replay_takes_tensors_that_touch_for_two(library: str, tmp_path: Path) -> None:
    kernel = graphffi.load_module(library).crash
    both = np.arange(2 << 20, dtype=np.float32)
    with graphffi.record(tmp_path, level=3):
        kernel(both[: 1 << 20], 2.0, both[1 << 20 :])
    status, found = replay(tmp_path)
    assert (status, found["outcome"]) == (0, "same"), found


MODULE = """
import sys

import numpy as np

import graphffi


def told(x, y):
    np.from_dlpack(y)[...] = np.from_dlpack(x)
    print("told", flush=True)
    sys.stdout.buffer.write(b"\\xff")
    return {value}


graphffi.register_global_func("recorded.told", told, override=True)
"""


@pytest.mark.parametrize(
    ("recorded", "replayed", "problem"),
    [
        ("1", "1", ""),
        ("float('nan')", "float('nan')", ""),
        ("[1, ['ü']]", "[1, ['ü']]", ""),
        ("graphffi.Shape([2])", "graphffi.Shape([2])", ""),
        ("np.ones((2, 3)).T", "np.ones((2, 3)).T", ""),
        ("None", "None", ""),
        ("1", "2", "returned: expected 1, got 2"),
        ("1", "True", "returned: expected 1, got True"),
        ("0.0", "-0.0", "returned: expected 0.0, got -0.0"),
        ("None", "0", "returned: expected None, got 0"),
        ("[1, 2]", "[1]", "returned: expected [1, 2], got"),
        ("[1, 2]", "[1, 3]", "returned.1: expected 2, got 3"),
        ("np.ones(6)", "np.ones((2, 3))", "returned: expected float64[6], got float64[2, 3]"),
        ("np.ones(6)", "1", "returned: expected a tensor, got 1"),
        ("np.ones(2)", "np.zeros(2)", "returned: expected the recorded bytes, got 4 of 16"),
    ],
)
def test_replay_compares_what_kernels_return(
    recorded: str, replayed: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name, value in (("recorded_module", recorded), ("replayed_module", replayed)):
        (tmp_path / f"{name}.py").write_text(MODULE.format(value=value))
    code = (
        "import graphffi, numpy, recorded_module\n"
        "x = numpy.ones(2, numpy.float32)\n"
        "with graphffi.record('records', level=3):\n"
        "    graphffi.get_global_func('recorded.told')(x, numpy.empty_like(x))\n"
    )
    environment = os.environ | {"GRAPHFFI_RUNTIME": graphffi.runtime_info().path}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
    status, found = replay(tmp_path / "records", "--import", "replayed_module")
    assert (status, found["outcome"]) == ((1, "differs") if problem else (0, "same")), found
    assert problem in found["text"]


def test_values_of_all_kinds_are_written_down(tmp_path: Path) -> None:
    strided = np.arange(12, dtype=np.int16).reshape(3, 4).T[::2]
    values = [None, True, -(2**40), 0.1, float("nan"), "ü\n", b"\0\xff", [1, ["x"]], strided]
    values += [graphffi.dtype("bfloat16"), graphffi.Device("cpu"), graphffi.Shape([2, 3])]
    seen = graphffi.Function(lambda *args: len(args))
    with graphffi.record(tmp_path, level=3):
        assert seen(*values) == len(values)
    (call,) = [c for c in read_record(tmp_path).calls if len(c.begin["args"]) == len(values)]
    args = call.begin["args"]
    assert args[:4] == [None, True, -(2**40), 0.1]
    assert args[4:8] == [{"float": "nan"}, {"utf8": "c3bc0a"}, {"bytes": "00ff"}, [1, ["x"]]]
    assert (args[8]["shape"], args[8]["strides"], args[8]["max"]) == ([2, 3], [2, 4], 10.0)
    assert args[9:] == [{"dtype": "bfloat16"}, {"device": "cpu"}, {"dims": [2, 3]}]
    assert call.end is not None
    assert call.end["returned"] == len(values)
    status, found = replay(tmp_path, "--call", str(call.number))
    assert (status, found["outcome"]) == (1, "not replayed")
    assert found["text"] == "expected a kernel with a name, got a function without one"


@pytest.mark.parametrize("plugin", ["graphffi_torch", "graphffi_jax"])
def test_calls_of_graphffis_own_functions_are_left_out(plugin: str, tmp_path: Path) -> None:
    pytest.importorskip(plugin)
    names = graphffi.list_global_func_names()
    own = [name for name in names if re.fullmatch(rf"(graphffi|{plugin})\.\w+", name)]
    assert any(name.startswith(plugin) for name in own)

    @graphffi.op("recorded::in_python", kernel=lambda x, out: None)
    def op(x: Tensor) -> Tensor:
        return graphffi.like(x)

    with graphffi.record(tmp_path):
        for name in own:
            with contextlib.suppress(Exception):  # they refuse an argument too many
                graphffi.get_global_func(name)(*[None] * 9)
        op(np.ones(2))
    (call,) = read_record(tmp_path).calls
    assert call.name == "recorded::in_python"


def test_complex_tensors_are_written_down(tmp_path: Path) -> None:
    with graphffi.record(tmp_path, level=2):
        graphffi.Function(lambda *args: None)(
            np.ones(2, np.complex64), graphffi.dtype("complex128")
        )
    (call,) = read_record(tmp_path).calls
    tensor, dtype = call.begin["args"]
    assert (tensor["tensor"], dtype) == ("complex64", {"dtype": "complex128"})


def test_the_library_that_registers_a_kernel_is_loaded_again(tmp_path: Path) -> None:
    library = graphffi.cpp.build("registers", sources=[HERE / "registers.cc"])
    graphffi.load_module(library)
    with graphffi.record(tmp_path, level=3):
        x = np.ones(2, np.float32)
        graphffi.call_tvm_ffi("recorded.add_one", x, out=graphffi.like(x))
    status, found = replay(tmp_path)
    assert (status, found["outcome"]) == (0, "same"), found


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


def test_a_full_disk_ends_recording_and_nothing_else(library: str, tmp_path: Path) -> None:
    code = "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    code += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "import graphffi, numpy, sys\n"
    code += "kernel = graphffi.load_module(sys.argv[1]).crash\n"
    code += "x = numpy.ones(64, numpy.float32)\n"
    code += "for _ in range(100): kernel(x, 2.0, x.copy())\n"
    env = os.environ | {"GRAPHFFI_RECORD": str(tmp_path), "GRAPHFFI_RECORD_LEVEL": "3"}
    command = [sys.executable, "-c", code, library]
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


def test_replay_takes_the_path_of_another_library(library: str, tmp_path: Path) -> None:
    """One that is relative to the current folder."""
    with graphffi.record(tmp_path, level=3):
        graphffi.load_module(library).crash(np.ones(3, np.float32), 2.0, np.ones(3, np.float32))
    for path, outcome in ((os.path.relpath(library), "same"), ("none.so", "not replayed")):
        _, found = replay(tmp_path, "--library", path)
        assert found["outcome"] == outcome, found
    assert f"cannot load '{Path.cwd()}/none.so': expected a file, got none" in found["text"]


def test_replay_says_whether_the_library_is_newer_than_the_call(
    library: str, tmp_path: Path
) -> None:
    """A library that the recorded process built before the call is not."""
    copied = shutil.copy(library, tmp_path / "copied.so")
    with graphffi.record(tmp_path, level=3):
        graphffi.load_module(copied).crash(np.ones(3, np.float32), 2.0, np.ones(3, np.float32))
    (call,) = calls_of(tmp_path).calls
    begin, at = call.header["unix_time"], call.begin["at"]
    for built, notes in (
        (begin + at // 2, []),
        (begin + at + 1000, [f"{copied}: built after the call was recorded"]),
    ):
        os.utime(copied, ns=(built, built))
        _, found = replay(tmp_path)
        assert found.get("notes", []) == notes


def test_calls_are_ranges_of_nvtx(library: str, tmp_path: Path) -> None:
    source = '#include <stdio.h>\nextern "C" int nvtxRangePushA(const char* name) {'
    source += ' fprintf(stderr, "push %s\\n", name); return 0; }\n'
    source += 'extern "C" int nvtxRangePop() { fprintf(stderr, "pop\\n"); return 0; }\n'
    (tmp_path / "nvtx.cc").write_text(source)
    nvtx = tmp_path / "nvtx.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-o", nvtx, tmp_path / "nvtx.cc"], check=True)
    done = run(library, tmp_path / "record", "numpy", 1, GRAPHFFI_NVTX=str(nvtx))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("push recorded::crash\npop\n") == 2

# SPDX-License-Identifier: Apache-2.0
"""GRAPHFFI_RECORD writes calls down before they run, on every path; replay runs them again."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi import Tensor
from graphffi._command.record import read_record
from tests import warm_python
from tests.interop.recorded import calls_of, replay

HERE = Path(__file__).resolve().parent
FAST = ("numpy", "function", "torch", "jitted")


def run(
    crash_library: str, folder: Path, path: str, first: int, **env: str
) -> subprocess.CompletedProcess[str]:
    recording = {"GRAPHFFI_RECORD": str(folder), "GRAPHFFI_RECORD_LEVEL": "3", **env}
    script = [sys.executable, str(HERE / "recorded_calls.py"), crash_library, path, str(first)]
    environment = os.environ | {"GRAPHFFI_RUNTIME": graphffi.runtime_info().path} | recording
    if path in ("torch", "compiled"):
        return warm_python.run(script, env=environment)
    return subprocess.run(script, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("path", [*FAST, pytest.param("compiled", marks=pytest.mark.slow)])
def test_a_crash_leaves_the_call_behind_and_replay_crashes_the_same(
    crash_library: str, tmp_path: Path, path: str
) -> None:
    done = run(crash_library, tmp_path, path, -1)
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


def test_calls_of_two_threads_are_both_under_way(crash_library: str, tmp_path: Path) -> None:
    done = run(crash_library, tmp_path, "threads", -2)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    one, other = [c for c in calls_of(tmp_path).calls if c.end is None]
    assert one.begin["thread"] != other.begin["thread"]


@pytest.mark.parametrize("kind", ["ValueError", "KeyError", "NoTile"])
def test_an_error_is_written_down_and_comes_again(
    crash_library: str, tmp_path: Path, kind: str
) -> None:
    """Also one that Python shows with quotes, and one whose kind is no class."""
    first = {"ValueError": -3, "KeyError": -4, "NoTile": -5}[kind]
    done = run(crash_library, tmp_path, "numpy", first)
    expected = f"{kind}: crash: expected no {first}"
    assert f"crash: expected no {first}" in done.stderr
    (*_, failed) = calls_of(tmp_path).calls
    assert failed.end is not None
    assert failed.end["error"] == expected
    status, found = replay(tmp_path, "--call", str(failed.number))
    assert (status, found["outcome"], found["text"]) == (0, "same", expected)
    assert found["recorded"] == expected


def test_a_refusal_of_arguments_comes_again(crash_library: str, tmp_path: Path) -> None:
    """Its text names the caller, which is another one."""
    with (
        graphffi.record(tmp_path, level=3),
        pytest.raises(TypeError, match="Mismatched type on argument #1"),
    ):
        graphffi.load_module(crash_library).crash(np.ones(2, np.float32), "2", None)
    status, found = replay(tmp_path)
    assert (status, found["outcome"]) == (0, "same"), found


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


def test_replay_puts_operands_where_they_were(crash_library: str, tmp_path: Path) -> None:
    kernel = graphffi.load_module(crash_library).crash
    both = np.arange(10, dtype=np.float32)
    with graphffi.record(tmp_path, level=3):
        kernel(both[:6], 2.0, both[3:9])  # it reads what it wrote
    assert both.tolist() == [0, 1, 2, 0, 2, 4, 0, 4, 8, 9]
    status, found = replay(tmp_path)
    assert (status, found["outcome"]) == (0, "same"), found


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("made", ["numpy", "graphffi"])
def test_tensors_without_elements_are_compared(
    crash_library: str, tmp_path: Path, level: int, made: str
) -> None:
    kernel = graphffi.load_module(crash_library).crash
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


def test_replay_takes_tensors_that_touch_for_two(crash_library: str, tmp_path: Path) -> None:
    kernel = graphffi.load_module(crash_library).crash
    both = np.arange(2 << 20, dtype=np.float32)
    with graphffi.record(tmp_path, level=3):
        kernel(both[: 1 << 20], 2.0, both[1 << 20 :])
    status, found = replay(tmp_path)
    assert (status, found["outcome"]) == (0, "same"), found


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


def test_replay_takes_the_path_of_another_library(crash_library: str, tmp_path: Path) -> None:
    """One that is relative to the current folder."""
    with graphffi.record(tmp_path, level=3):
        graphffi.load_module(crash_library).crash(
            np.ones(3, np.float32), 2.0, np.ones(3, np.float32)
        )
    for path, outcome in ((os.path.relpath(crash_library), "same"), ("none.so", "not replayed")):
        _, found = replay(tmp_path, "--library", path)
        assert found["outcome"] == outcome, found
    assert f"cannot load '{Path.cwd()}/none.so': expected a file, got none" in found["text"]


def test_replay_says_whether_the_library_is_newer_than_the_call(
    crash_library: str, tmp_path: Path
) -> None:
    """A library that the recorded process built before the call is not."""
    copied = shutil.copy(crash_library, tmp_path / "copied.so")
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


def test_calls_are_ranges_of_nvtx(crash_library: str, tmp_path: Path) -> None:
    source = '#include <stdio.h>\nextern "C" int nvtxRangePushA(const char* name) {'
    source += ' fprintf(stderr, "push %s\\n", name); return 0; }\n'
    source += 'extern "C" int nvtxRangePop() { fprintf(stderr, "pop\\n"); return 0; }\n'
    (tmp_path / "nvtx.cc").write_text(source)
    nvtx = tmp_path / "nvtx.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-o", nvtx, tmp_path / "nvtx.cc"], check=True)
    done = run(crash_library, tmp_path / "record", "numpy", 1, GRAPHFFI_NVTX=str(nvtx))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("push recorded::crash\npop\n") == 2

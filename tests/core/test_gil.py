# SPDX-License-Identifier: Apache-2.0
"""The GIL during calls: released unless a function keeps it, there for all who need it."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import pytest

import graphffi
from tests.gil_kernels import address_of, answering, load_kernels

PRELUDE = """
import atexit, ctypes, graphffi, os, sys, threading
from tests.gil_kernels import address_of, load_kernels
kernels = load_kernels()
"""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def kernels() -> graphffi.Module:
    return load_kernels()


def test_a_kernel_may_wait_for_a_python_thread(kernels: Any) -> None:
    with answering() as words:
        kernels.meet(words)


@pytest.mark.parametrize(("asked", "releases"), [(None, True), ("1", True), ("0", False)])
def test_the_environment_says_whether_calls_release_the_gil(
    run_python: Any, asked: str | None, releases: bool
) -> None:
    code = (
        f"{PRELUDE}\n"
        "held = ctypes.pythonapi.PyGILState_Check\n"
        "print(kernels.nothing.release_gil, bool(kernels.ask(address_of(held))))\n"
        "op = graphffi.define_op('mytest::f', schema='(Tensor(a!) x) -> ()', kernel='some.name')\n"
        "print(op.definition.kernels[0].release_gil)\n"
    )
    environment = {} if asked is None else {"GRAPHFFI_RELEASE_GIL": asked}
    expected = f"{releases} {not releases}\n{releases}\n"
    assert run_python(code, PYTHONPATH=ROOT, **environment) == (0, expected)


@pytest.mark.parametrize("variable", ["GRAPHFFI_RELEASE_GIL", "GRAPHFFI_BACKTRACE"])
def test_another_word_in_the_environment_is_refused(run_python: Any, variable: str) -> None:
    code = "try: import graphffi\nexcept ImportError as error: print(error)"
    status, output = run_python(code, **{variable: "yes"})
    assert (status, output) == (0, f"graphffi: {variable}: expected 0 or 1, got 'yes'\n")
    assert run_python("import graphffi", **{variable: ""}) == (0, "")


def test_a_function_can_keep_the_gil(kernels: Any) -> None:
    function = kernels.get_function("ask")
    held = address_of(ctypes.pythonapi.PyGILState_Check)
    function.release_gil = False
    assert function(held) == 1
    function.release_gil = True
    assert function(held) == 0


@pytest.mark.parametrize("name", ["run", "run_in_thread"])
def test_a_kernel_may_take_the_gil_by_other_means(kernels: Any, name: str) -> None:
    seen = []
    callback = ctypes.CFUNCTYPE(None)(lambda: seen.append(threading.get_ident()))
    kernels.get_function(name)(address_of(callback))
    assert (seen == [threading.get_ident()]) == (name == "run")


def test_callbacks_and_kernels_call_each_other(kernels: Any) -> None:
    depths = []

    def down(depth: int) -> None:
        depths.append(depth)
        if depth < 5:
            callback = ctypes.CFUNCTYPE(None)(lambda: down(depth + 1))
            kernels.run(address_of(callback))

    down(1)
    assert depths == [1, 2, 3, 4, 5]


def test_errors_pass(kernels: Any) -> None:
    for _ in range(10):
        with pytest.raises(LookupError, match="of the kernel"):
            kernels.fail()
        kernels.nothing()


def test_threads_and_callbacks_take_turns(kernels: Any) -> None:
    counts = [0] * 4

    def work(number: int) -> None:
        def count() -> None:
            counts[number] += 1

        callback = ctypes.CFUNCTYPE(None)(count)
        for _ in range(300):
            for _ in range(100):
                kernels.nothing()
            kernels.run(address_of(callback))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [300] * 4


def test_a_child_that_a_call_forks_can_call(run_python: Any) -> None:
    code = (
        f"{PRELUDE}\n"
        "def child():\n"
        "    for _ in range(1000): kernels.nothing()\n"
        "    os._exit(7)\n"
        "callback = ctypes.CFUNCTYPE(None)(child)\n"
        "print('status', kernels.fork_and_run(address_of(callback)))\n"
        "kernels.nothing()\n"
    )
    assert run_python(code, PYTHONPATH=ROOT) == (0, "status 7\n")


def test_a_process_may_end_in_a_call(run_python: Any) -> None:
    assert run_python(f"{PRELUDE}\nkernels.leave(9)\n", PYTHONPATH=ROOT) == (9, "")


@pytest.mark.parametrize("body", ["time.sleep(0)", "kernels.nothing()", "kernels.fail()"])
def test_threads_are_in_callbacks_while_python_shuts_down(run_python: Any, body: str) -> None:
    code = (
        f"{PRELUDE}\n"
        "import time\n"
        "def wait():\n"
        f"    while True: {body}\n"
        "def work():\n"
        "    while True:\n"
        "        try: graphffi.Function(wait)()\n"
        "        except LookupError: pass\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "for _ in range(1000): kernels.nothing()\n"
        "print('end')\n"
    )
    assert run_python(code, PYTHONPATH=ROOT) == (0, "end\n")


@pytest.mark.parametrize(("num_threads", "output"), [(0, "late last"), (2, "late ")])
def test_calls_while_python_shuts_down(run_python: Any, num_threads: int, output: str) -> None:
    # Python drops the objects of modules only where no other threads run.
    code = (
        "import atexit\n"
        "def late():\n"  # runs after graphffi's own
        "    for _ in range(1000): kernels.nothing()\n"
        "    callback = ctypes.CFUNCTYPE(None)(lambda: os.write(1, b'late '))\n"
        "    kernels.run(address_of(callback))\n"
        "atexit.register(late)\n"
        f"{PRELUDE}\n"
        "class Last:\n"
        "    def __del__(self, call=kernels.nothing, write=os.write): call(); write(1, b'last')\n"
        "last = Last()\n"
        "def forever():\n"
        "    while True: kernels.nothing()\n"
        f"for _ in range({num_threads}): threading.Thread(target=forever, daemon=True).start()\n"
        "for _ in range(1000): kernels.nothing()\n"
    )
    assert run_python(code, PYTHONPATH=ROOT) == (0, output)

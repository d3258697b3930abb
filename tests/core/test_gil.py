# SPDX-License-Identifier: Apache-2.0
"""Python's lock during calls: kept for short ones, there for all who need it."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import graphffi
from tests.parked_calls import (
    address_of,
    answering,
    in_parked_call,
    load_kernels,
    needs_parking,
    num_given_up,
    num_parked,
)

pytestmark = needs_parking
PARKED = """
import atexit, ctypes, graphffi, os, sys, threading
from tests.parked_calls import address_of, in_parked_call, load_kernels, num_parked
kernels = load_kernels()
def parked(name, *args):
    def make():
        function = kernels.get_function(name)
        return lambda: function(*args)
    return in_parked_call(kernels.nothing, make)
"""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def kernels() -> graphffi.Module:
    return load_kernels()


@pytest.fixture
def parked(kernels: Any) -> Callable[..., Any]:
    """Call a kernel by name, so that Python's lock is parked."""

    def run(name: str, *args: Any) -> Any:
        def make() -> Callable[[], Any]:
            function = kernels.get_function(name)
            return lambda: function(*args)

        return in_parked_call(kernels.nothing, make)

    return run


def test_short_calls_park_the_lock(kernels: Any) -> None:
    before = num_parked()
    while num_parked() < before + 10_000:
        kernels.nothing()


def test_a_call_that_keeps_the_lock_does_not_park_it(kernels: Any, parked: Any) -> None:
    function = kernels.get_function("nothing")
    function.release_gil = False
    parked("nothing")
    before = num_parked()
    for _ in range(100):
        function()
    assert num_parked() == before


def test_a_kernel_may_wait_for_a_python_thread(kernels: Any) -> None:
    def make() -> Callable[[], None]:
        function = kernels.get_function("meet")

        def call() -> None:
            with answering() as words:
                function(words)

        return call

    before = num_given_up()
    in_parked_call(kernels.nothing, make)
    assert num_given_up() > before


def test_loops_without_bytecode_let_other_threads_run(kernels: Any, parked: Any) -> None:
    parked("nothing")
    with answering() as words:
        assert any(map(kernels.look, itertools.repeat(words)))


@pytest.mark.parametrize("name", ["run", "run_in_thread"])
def test_a_kernel_may_take_the_lock_by_other_means(parked: Any, name: str) -> None:
    seen = []
    callback = ctypes.CFUNCTYPE(None)(lambda: seen.append(threading.get_ident()))
    before = num_given_up()
    parked(name, address_of(callback))
    assert num_given_up() > before
    assert len(seen) >= 2
    assert (set(seen) == {threading.get_ident()}) == (name == "run")


def test_a_kernel_that_takes_the_lock_gives_it_up_at_once_then(kernels: Any, parked: Any) -> None:
    function = kernels.get_function("run")
    callback = ctypes.CFUNCTYPE(None)(lambda: None)

    def call() -> None:
        function(address_of(callback))

    in_parked_call(kernels.nothing, lambda: call)
    before = num_parked()
    for _ in range(500):
        call()
    assert num_parked() == before


def test_callbacks_and_kernels_call_each_other(kernels: Any, parked: Any) -> None:
    depths = []

    def down(depth: int) -> None:
        depths.append(depth)
        if depth < 5:
            callback = ctypes.CFUNCTYPE(None)(lambda: down(depth + 1))
            kernels.run(address_of(callback))
            parked("nothing")

    callback = ctypes.CFUNCTYPE(None)(lambda: down(1))
    parked("run", address_of(callback))
    assert depths == [1, 2, 3, 4, 5] * (len(depths) // 5)


def test_errors_pass(kernels: Any) -> None:
    def make() -> Callable[[], None]:
        function = kernels.get_function("fail")

        def call() -> None:
            with pytest.raises(LookupError, match="of the kernel"):
                function()

        return call

    for _ in range(10):
        in_parked_call(kernels.nothing, make)


def test_threads_and_callbacks_take_turns(kernels: Any) -> None:
    counts = [0] * 4

    def work(number: int) -> None:
        def count() -> None:
            counts[number] += 1

        callback = ctypes.CFUNCTYPE(None)(count)
        own, address = kernels.get_function("run"), address_of(callback)
        for turn in range(300):
            for _ in range(100):
                kernels.nothing()
            (own if turn % 2 else kernels.run)(address)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [300] * 4


def test_functions_that_come_and_go(kernels: Any) -> None:
    before = num_parked()
    while num_parked() < before + 1000:
        function = kernels.get_function("nothing")
        function()
        function()


def test_a_child_of_a_parked_call_has_the_lock(run_python: Any) -> None:
    code = (
        f"{PARKED}\n"
        "parent = os.getpid()\n"
        "def child():\n"
        "    for _ in range(100000): kernels.nothing()\n"
        "    os._exit(7)\n"
        "print('status', parked('fork_and_run', address_of(ctypes.CFUNCTYPE(None)(child))))\n"
        "assert os.getpid() == parent\n"
        "callback = ctypes.CFUNCTYPE(None)(child)\n"
        "print('status', parked('fork_and_run', address_of(callback)))\n"
        "if (pid := os.fork()) == 0:\n"
        "    parked('nothing')\n"
        "    os._exit(8)\n"
        "print('status', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "parked('nothing')\n"
    )
    status, output = run_python(code, PYTHONPATH=ROOT)
    assert (status, output.split("\n")[-4:]) == (0, ["status 7", "status 7", "status 8", ""]), (
        output
    )


def test_a_process_may_end_in_a_parked_call(run_python: Any) -> None:
    code = (
        f"{PARKED}\n"
        "kernels.leave(-1)\n"  # the first call of all never parks
        "parked('nothing')\n"
        "kernels.leave(9)\n"
    )
    assert run_python(code, PYTHONPATH=ROOT) == (9, "")


@pytest.mark.parametrize("body", ["time.sleep(0)", "kernels.nothing()", "kernels.fail()"])
def test_threads_are_in_callbacks_while_python_shuts_down(run_python: Any, body: str) -> None:
    code = (
        f"{PARKED}\n"
        "import time\n"
        "def wait():\n"
        f"    while True: {body}\n"
        "def work():\n"
        "    while True:\n"
        "        try: graphffi.Function(wait)()\n"
        "        except LookupError: pass\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "parked('nothing')\n"
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
        f"{PARKED}\n"
        "class Last:\n"
        "    def __del__(self, call=kernels.nothing, write=os.write): call(); write(1, b'last')\n"
        "last = Last()\n"
        "def forever():\n"
        "    while True: kernels.nothing()\n"
        f"for _ in range({num_threads}): threading.Thread(target=forever, daemon=True).start()\n"
        "parked('nothing')\n"
    )
    assert run_python(code, PYTHONPATH=ROOT) == (0, output)

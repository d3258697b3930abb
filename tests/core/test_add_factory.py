# SPDX-License-Identifier: Apache-2.0
"""Factories of kernels: one kernel for each key, and what is refused."""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi.plugin import FactoryError
from tests.core.array_calls import calling, compiled, ones, value
from tests.core.factories import (
    Recorder,
    by_width,
    define,
    filling,
    narrow,
)

pytestmark = pytest.mark.usefixtures("cache")


def test_one_kernel_is_made_for_each_key(arrays: Any) -> None:
    op, factory = define(), Recorder()
    by_width(op, factory)
    for _ in range(2):
        assert [value(op(ones(arrays, 2, n))) for n in (3, 4, 3)] == [3, 4, 3]
        assert value(op(ones(arrays, 5, 4))) == 4
    assert factory.keys == [(3,), (4,)]


def test_compiled_and_eager_code_share_kernels(arrays: Any) -> None:
    op, factory = define(), Recorder()
    by_width(op, factory)
    function = compiled(arrays, calling(op))
    assert [value(function(ones(arrays, 2, n))) for n in (3, 4)] == [3, 4]
    assert [value(op(ones(arrays, 2, n))) for n in (3, 4)] == [3, 4]
    assert factory.keys == [(3,), (4,)]


def test_frameworks_share_kernels() -> None:
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    op, factory = define(), Recorder()
    by_width(op, factory)
    for x in (np.ones(3, np.float32), torch.ones(3), jax.numpy.ones(3)):
        assert value(op(x)) == 3
    assert factory.keys == [(3,)]


def test_more_kernels_than_a_table_has_room_for_are_made(arrays: Any) -> None:
    if arrays.name == "jax":
        pytest.skip("compiles each")
    op = define()
    by_width(op, filling)
    for _ in range(2):
        assert all(value(op(ones(arrays, n))) == n for n in range(1, 41))


def test_keys_are_any_static_facts(arrays: Any) -> None:
    op, factory = define(), Recorder(lambda *key: filling(len(key)))
    by_width(
        op,
        factory,
        key=lambda x, n, mode, f: (x.dtype, n > 1, mode, f, None, (x.ndim, x.shape[0] * 2), n),
    )
    for _ in range(2):
        assert value(op(ones(arrays, 3), 2, mode="b")) == 7
        assert value(op(ones(arrays, 3), 2, f=0.25)) == 7
    first = ("float32", True, "b", 0.5, None, (1, 6), 2)
    assert factory.keys == [first, ("float32", True, "a", 0.25, None, (1, 6), 2)]
    assert [type(item) for item in factory.keys[0]] == [
        *(graphffi.dtype, bool, str, float, type(None), tuple, int)
    ]


@pytest.mark.parametrize("value", [None, True, False, float("inf"), float("nan")])
def test_a_value_and_its_name_are_two_keys(arrays: Any, value: Any) -> None:
    op, factory = define(), Recorder(lambda _: filling(1))
    by_width(op, factory, key=lambda x, n, mode, f: str(value) if n else value)
    for n in (0, 1):
        op(ones(arrays, 2), n)
    assert list(map(repr, factory.keys)) == [repr((value,)), repr((str(value),))]


def test_a_factory_is_one_of_the_kernels_of_its_op(arrays: Any) -> None:
    op = define()
    by_width(op, filling, when=lambda x, n, mode, f: x.shape[-1] > 4, name="wide")
    op.add_kernel(filling(1), plan="x, out", name="narrow")
    assert [value(op(ones(arrays, n))) for n in (5, 4)] == [5, 1]
    lines = op.explain(ones(arrays, 5)).splitlines()
    assert lines[0] == "'wide' (factory, key (5)): runs"
    with op.use_kernel("narrow"):
        assert value(op(ones(arrays, 5))) == 1


def test_explaining_a_call_makes_nothing() -> None:
    op, factory = define(), Recorder()
    by_width(op, factory)
    op.explain(np.ones(3, np.float32))
    assert factory.keys == []


def raising(size: int) -> None:
    raise ValueError(f"no tiles for {size}")


FAILURES = {
    "raises": (raising, r"expected a kernel, got ValueError: no tiles for 3"),
    "returns nonsense": (
        lambda size: 7,
        "expected a function, a kernel reference or the path of a library, got int",
    ),
    "returns a class": (
        lambda size: dict,
        "expected a function, a kernel reference or the path of a library, got type <class 'dict'>",
    ),
    "another arity": (
        lambda size: narrow,
        r"expected a function that takes 2 values, got narrow\(x: 'Any'\)",
    ),
    "no such library": (lambda size: "/nowhere/lib.so", "'/nowhere/lib.so'"),
    "no such function": (lambda size: "nowhere.fill", "'nowhere.fill': expected a registered"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_factory_that_fails_says_so_and_may_be_tried_again(arrays: Any, failure: str) -> None:
    make, text = FAILURES[failure]
    op, factory = define(), Recorder(make)
    by_width(op, factory)
    function = compiled(arrays, calling(op)) if failure == "raises" else op
    with pytest.raises(FactoryError, match=f"{op.name}: factory 'recorded', key \\(3\\): .*{text}"):
        function(ones(arrays, 3))
    assert factory.keys == [(3,)]
    factory.made = filling
    assert value(function(ones(arrays, 3))) == 3
    assert factory.keys == [(3,)] * 2


def test_an_interrupted_factory_may_be_tried_again(arrays: Any) -> None:
    def interrupted(size: int) -> None:
        raise KeyboardInterrupt

    op, factory = define(), Recorder(interrupted)
    by_width(op, factory)
    with pytest.raises(KeyboardInterrupt):
        op(ones(arrays, 3))
    factory.made = filling
    assert value(op(ones(arrays, 3))) == 3


class Waiting:
    """A factory that waits until others ask for the same key."""

    def __init__(self, op: graphffi.Op) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.keys: list[int] = []
        self.outcome: Any = None
        by_width(op, self.make)
        (kernel,) = op.definition.kernels
        self.factory: Any = kernel.factory

    def make(self, size: int) -> Any:
        self.keys.append(size)
        self.has_begun.set()
        assert self.may_end.wait(60)
        if isinstance(self.outcome, BaseException):
            outcome, self.outcome = self.outcome, None
            raise outcome
        return filling(size)


def waiting_calls(op: graphffi.Op, waiting: Waiting, outcome: Any) -> Iterator[Any]:
    """What four calls on threads give: the first makes the kernel, the others wait for it."""
    waiting.outcome = outcome
    found: list[Any] = [None] * 4

    def run(i: int) -> None:
        try:
            found[i] = value(op(np.ones(3, np.float32)))
        except BaseException as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    threads[0].start()
    assert waiting.has_begun.wait(60)
    for thread in threads[1:]:
        thread.start()
    waiting.may_end.set()
    for thread in threads:
        thread.join()
    return iter(found)


def test_threads_that_ask_meanwhile_get_the_same_kernel() -> None:
    op = define()
    waiting = Waiting(op)
    assert list(waiting_calls(op, waiting, None)) == [3, 3, 3, 3]
    assert waiting.keys == [3]


def test_threads_go_on_where_one_was_interrupted() -> None:
    op = define()
    waiting = Waiting(op)
    first, *others = waiting_calls(op, waiting, KeyboardInterrupt())
    assert isinstance(first, KeyboardInterrupt)
    assert others == [3, 3, 3]
    assert waiting.keys == [3, 3]


def test_a_factory_that_calls_for_its_own_kernel_is_refused(arrays: Any) -> None:
    op = define()
    by_width(op, lambda size: op(ones(arrays, size)), name="tile")
    with pytest.raises(FactoryError, match="got a call of the kernel that is being made"):
        op(ones(arrays, 3))


def test_progress_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    op = define()
    by_width(op, filling, name="tile")
    with caplog.at_level(logging.INFO, "graphffi.kernels"):
        op(np.ones(3, np.float32))
    start = f"{op.name}: factory 'tile', key (3): "
    assert caplog.messages[0] == f"{start}making a kernel"
    assert re.fullmatch(re.escape(start) + r"made in \d+\.\d{3} s", caplog.messages[1])


def test_a_child_process_makes_what_its_parent_was_making() -> None:
    op = define()
    waiting = Waiting(op)
    thread = threading.Thread(target=lambda: op(np.ones(3, np.float32)))
    thread.start()
    assert waiting.has_begun.wait(60)
    waiting.factory.forget_builds()  # as after a fork
    waiting.may_end.set()
    assert value(op(np.ones(3, np.float32))) == 3
    thread.join()


FORKS_DURING_A_FIRST_CALL = """
import os, signal, sys, threading, warnings
import numpy as np
import graphffi
from graphffi._kernels import factory

warnings.simplefilter("ignore")  # Python warns of fork if there are threads
has_begun, may_end = threading.Event(), threading.Event()
read_rule = factory.read_rule

def read_slowly(rules):
    if threading.current_thread() is not threading.main_thread():
        has_begun.set()
        may_end.wait(60)
    return read_rule(rules)

factory.read_rule = read_slowly

def define(name):
    op = graphffi.define_op(name, schema="(Tensor x) -> Tensor", infer=graphffi.like)

    @op.add_factory(key=lambda x: x.shape[0])
    def fill(width):
        def kernel(x, out):
            np.from_dlpack(out)[...] = 1

        return kernel

    return op

meanwhile, other = define("forks::first"), define("forks::other")
thread = threading.Thread(target=meanwhile, args=(np.zeros(2),))
thread.start()
if not has_begun.wait(60):
    sys.exit("the call did not read its rules")
if child := os.fork():
    print("status", os.waitpid(child, 0)[1])
    may_end.set()
    thread.join()
else:
    signal.alarm(60)  # ends a child that waits for ever
    may_end.set()
    other(np.zeros(2))
    os._exit(0)
"""


def test_a_process_forks_during_a_first_call(run_python: Any) -> None:
    runtime = graphffi.runtime_info().path
    status, text = run_python(FORKS_DURING_A_FIRST_CALL, GRAPHFFI_RUNTIME=runtime)
    assert (status, text) == (0, "status 0\n")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"key": 1}, TypeError, "add_factory: key: expected a callable, got 1"),
        ({"when": 1}, TypeError, "add_factory: when: expected a callable, got 1"),
        ({"device": "cuda:1"}, ValueError, "expected a type of devices, such as 'cuda', got"),
        ({"plan": "y"}, ValueError, "plan 'y': expected a known name, got 'y'"),
        ({"depends": "a.cc"}, TypeError, "depends: expected a list of paths and texts, got 'a.cc'"),
        ({"depends": Path("a.cc")}, TypeError, "depends: expected a list of paths and texts, got"),
        ({"depends": 1}, TypeError, "depends: expected a list of paths and texts, got 1"),
        ({"depends": [1]}, TypeError, "depends: expected a list of paths and texts, got [1]"),
    ],
)
def test_wrong_options_are_refused_and_change_nothing(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    op = define()
    with pytest.raises(error, match=re.escape(text)):
        by_width(op, filling, **options)
    assert op.definition.kernels == ()


def test_a_key_of_something_else_is_refused(arrays: Any) -> None:
    op = define()
    by_width(op, filling, key=lambda x, n, mode, f: (x,), name="tile")
    with pytest.raises(TypeError, match=r"factory 'tile': key: expected static facts .*, got "):
        op(ones(arrays, 3))


def test_an_array_in_a_key_is_refused(arrays: Any) -> None:
    op = define()
    by_width(op, filling, key=lambda x, n, mode, f: arrays.make([1, 2]), name="tile")
    with pytest.raises(TypeError, match=r"factory 'tile': key: expected static facts .*, got "):
        op(ones(arrays, 3))


def test_errors_of_a_key_name_op_and_factory(arrays: Any) -> None:
    op = define()
    by_width(op, filling, key=lambda x, n, mode, f: [4][x.shape[0]], name="tile")
    with pytest.raises(IndexError, match=f"{op.name}: factory 'tile': key: list index out of"):
        op(ones(arrays, 3))


def test_errors_of_a_condition_name_op_and_kernel(arrays: Any) -> None:
    def broken(x: Any, n: int, mode: str, f: float) -> bool:
        raise ValueError("bad size")

    op = define()
    op.add_kernel(filling(1), plan="x, out", name="tile", when=broken)
    for function in (op, compiled(arrays, calling(op))):
        with pytest.raises(
            ValueError,
            match=f"{op.name}: kernel 'tile': its condition broken .test_add_factory.py:.*bad size",
        ):
            function(ones(arrays, 3))


def test_zeros_of_both_signs_are_two_keys(arrays: Any) -> None:
    op, factory = define(), Recorder(lambda f: filling(math.copysign(1, f)))
    by_width(op, factory, key=lambda x, n, mode, f: f)
    assert [value(op(ones(arrays, 3), f=f)) for f in (0.0, -0.0, 0.0)] == [1, -1, 1]

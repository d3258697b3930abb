# SPDX-License-Identifier: Apache-2.0
"""10,000 calls leave no memory behind."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi import _core

CALLS = 10_000
# Two rounds: what the first one leaves behind, such as caches, the second one must not.
TOLERATED_BYTES = 400_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def check_flat(call: Callable[[], Any], calls: int = CALLS) -> None:
    for _ in range(calls):
        call()
    gc.collect()
    blocks, resident = sys.getallocatedblocks(), resident_bytes()
    for _ in range(calls):
        call()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < calls // 10
    assert resident_bytes() - resident < TOLERATED_BYTES


@pytest.mark.parametrize(
    "arguments",
    [
        ("a string that is no small one",),
        (b"bytes that are no small ones",),
        ([1, "a string that is no small one", [2.5]],),
        ({"key": ["value"] * 10},),
        (graphffi.Shape([1, 2, 3]),),
        (graphffi.dtype("float16"),),
        (graphffi.Device("cuda:1"),),
        (len,),
    ],
    ids=["str", "bytes", "list", "dict", "shape", "dtype", "device", "callable"],
)
def test_values(kernels: Any, arguments: tuple[Any, ...]) -> None:
    echo = kernels.echo
    check_flat(lambda: echo(*arguments))


def test_tensors(kernels: Any, arrays: Any) -> None:
    x, same = arrays.make([[1, 2], [3, 4]]), kernels.same
    check_flat(lambda: same(x))


def test_kept_tensors(kernels: Any, arrays: Any) -> None:
    x, keep = arrays.make([1, 2]), kernels.keep
    check_flat(lambda: keep(x))
    keep(None)


def test_lists_of_tensors(kernels: Any, arrays: Any) -> None:
    x, count = arrays.make([1, 2]), kernels.count_tensors
    check_flat(lambda: count([x, x]))


def test_errors(kernels: Any) -> None:
    fail = kernels["raise"]

    def call() -> None:
        with contextlib.suppress(ValueError):
            fail("ValueError", "a text")

    check_flat(call)


def test_exceptions_of_callbacks(kernels: Any) -> None:
    def fail(_: object) -> None:
        raise ValueError("a text")

    def call() -> None:
        with contextlib.suppress(ValueError):
            kernels.call(fail, None)

    check_flat(call)


def test_refused_arguments(kernels: Any) -> None:
    def call() -> None:
        with contextlib.suppress(TypeError):
            kernels.count("a string that is no small one", [1, 2], set())

    check_flat(call)


def test_containers(kernels: Any) -> None:
    echo = kernels.echo
    value = {"key": [1, 2.5, "a string that is no small one"], "other": {"k": (1, b"bytes" * 9)}}
    check_flat(lambda: echo([value, graphffi.Shape([1, 2]), value]))


def test_tensors_from_dlpack_and_back(arrays: Any) -> None:
    x = arrays.make([[1, 2], [3, 4]])
    back = {"numpy": "numpy", "torch": "torch.utils.dlpack", "jax": "jax.dlpack"}[arrays.name]
    from_dlpack = importlib.import_module(back).from_dlpack
    check_flat(lambda: from_dlpack(graphffi.from_dlpack(x)))


def test_capsules_that_nobody_takes() -> None:
    tensor = _core.empty([4], "float32")
    check_flat(lambda: (tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))))


def test_functions_that_come_and_go(kernels: Any) -> None:
    def call() -> None:
        graphffi.register_global_func("memory.function", lambda x: x, override=True)
        assert graphffi.get_global_func("memory.function")(1) == 1
        graphffi.remove_global_func("memory.function")

    check_flat(call)


def test_plans_and_their_failures(kernels: Any) -> None:
    x = _core.empty([4], "float32")

    def call() -> None:
        arguments = [x, x], [], [1], [0.5], ["text"], "memory::op"
        _core.call_plan(kernels.count, '(i0, i1), n0, f0, s0, "a constant"', *arguments)
        with contextlib.suppress(ValueError):
            _core.call_plan(kernels.count, "i7", *arguments)

    check_flat(call)


def test_modules(kernels_path: str) -> None:
    def call() -> None:
        module = graphffi.load_module(kernels_path)
        module.get_function("echo")
        with contextlib.suppress(AttributeError):
            module.get_function("no such function")

    check_flat(call, CALLS // 10)

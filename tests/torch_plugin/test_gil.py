# SPDX-License-Identifier: Apache-2.0
"""Python's lock during calls of ops: kept for short ones, there for all who need it."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphffi
from tests.parked_calls import (
    address_of,
    answering,
    in_parked_call,
    load_kernels,
    needs_parking,
    num_given_up,
)

pytestmark = needs_parking
numbers = itertools.count()


def eager(op: Any) -> Callable[[torch.Tensor], Any]:
    return op


def compiled(op: Any) -> Callable[[torch.Tensor], Any]:
    return torch.compile(op, fullgraph=True)


@pytest.fixture(scope="module")
def kernels() -> graphffi.Module:
    return load_kernels()


def define(kernel: Any) -> Any:
    """An op that is called for the first time."""
    return graphffi.define_op(
        f"mytest::parked_{next(numbers)}", schema="(Tensor(a!) out) -> ()", kernel=kernel
    )


@pytest.mark.parametrize("mode", [eager, compiled])
def test_a_kernel_may_wait_for_a_python_thread(kernels: Any, mode: Any) -> None:
    def make() -> Callable[[], None]:
        run = mode(define(kernels.meet_at))

        def call() -> None:
            with answering() as words:
                run(torch.tensor([words]))

        return call

    before = num_given_up()
    in_parked_call(kernels.nothing, make)
    assert num_given_up() > before


@pytest.mark.parametrize("mode", [eager, compiled])
def test_a_kernel_may_take_the_lock_by_other_means(kernels: Any, mode: Any) -> None:
    seen = []
    callback = ctypes.CFUNCTYPE(None)(lambda: seen.append(threading.get_ident()))
    where = torch.tensor([address_of(callback)])

    def make() -> Callable[[], None]:
        run = mode(define(kernels.run_at))
        return lambda: run(where)

    before = num_given_up()
    in_parked_call(kernels.nothing, make)
    assert num_given_up() > before
    assert len(seen) >= 2
    assert set(seen) == {threading.get_ident()}


@pytest.mark.parametrize("mode", [eager, compiled])
def test_a_failing_kernel_leaves_the_lock_as_it_was(kernels: Any, mode: Any) -> None:
    def kernel(out: Any) -> None:
        raise LookupError("of the callback")

    function = graphffi.Function(kernel)
    graphffi.register_global_func(f"parked.fail_{mode.__name__}", function)
    out = torch.zeros(1)

    def make() -> Callable[[], None]:
        run = mode(define(graphffi.get_global_func(f"parked.fail_{mode.__name__}")))

        def call() -> None:
            version = out._version
            with pytest.raises(LookupError, match="of the callback"):
                run(out)
            assert out._version > version

        return call

    in_parked_call(kernels.nothing, make)

# SPDX-License-Identifier: Apache-2.0
"""The GIL during calls of ops: released unless their function keeps it."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphffi
from tests.gil_kernels import address_of, answering, load_kernels

numbers = itertools.count()


def eager(op: Any) -> Callable[[torch.Tensor], Any]:
    return op


def compiled(op: Any) -> Callable[[torch.Tensor], Any]:
    return torch.compile(op, fullgraph=True)


@pytest.fixture(scope="module")
def kernels() -> graphffi.Module:
    return load_kernels()


def define(kernel: Any) -> Any:
    return graphffi.define_op(
        f"mytest::gil_{next(numbers)}", schema="(Tensor(a!) out) -> ()", kernel=kernel
    )


@pytest.mark.parametrize("mode", [eager, compiled])
def test_a_kernel_may_wait_for_a_python_thread(kernels: Any, mode: Any) -> None:
    run = mode(define(kernels.meet_at))
    with answering() as words:
        run(torch.tensor([words]))


@pytest.mark.parametrize("mode", [eager, compiled])
def test_a_kernel_may_take_the_gil_by_other_means(kernels: Any, mode: Any) -> None:
    seen = []
    callback = ctypes.CFUNCTYPE(None)(lambda: seen.append(threading.get_ident()))
    mode(define(kernels.run_at))(torch.tensor([address_of(callback)]))
    assert set(seen) == {threading.get_ident()}


@pytest.mark.parametrize("mode", [eager, compiled])
def test_a_failing_kernel_has_updated_its_operand(mode: Any) -> None:
    def kernel(out: Any) -> None:
        raise LookupError("of the callback")

    name = f"gil.fail_{mode.__name__}"
    graphffi.register_global_func(name, kernel)
    run = mode(define(graphffi.get_global_func(name)))
    out = torch.zeros(1)
    version = out._version
    with pytest.raises(LookupError, match="of the callback"):
        run(out)
    assert out._version > version

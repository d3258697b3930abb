# SPDX-License-Identifier: Apache-2.0
"""Memory: the env's allocator, tensors that outlive a call, what calls leave behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return int(next(line.split()[1] for line in status if line.startswith("VmRSS")))


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4), (1000, 100)])
def test_a_kernel_may_allocate(ops: SimpleNamespace, shape: tuple[int, ...]) -> None:
    x = jnp.ones(shape)
    np.testing.assert_array_equal(ops.scratch(x), x)
    np.testing.assert_array_equal(jax.jit(ops.scratch)(x), x)


def test_an_allocated_tensor_may_outlive_the_call(ops: SimpleNamespace) -> None:
    for i in range(5):
        ops.keep_scratch(X + i)


def test_too_much_memory_is_an_error(ops: SimpleNamespace) -> None:
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"jaxtest::huge_scratch: .*cannot allocate"
    ):
        ops.huge_scratch(X)
    np.testing.assert_array_equal(ops.scratch(X), X)


def test_the_allocator_is_restored_after_the_call(ops: SimpleNamespace, library: str) -> None:
    module = graphffi.load_module(library)
    before = module.allocator()
    jax.block_until_ready(ops.scratch(X))
    assert module.allocator() == before
    module.set_allocator(1)  # of this thread, which runs small programs itself
    try:
        jax.block_until_ready(ops.scratch(X))
        assert module.allocator() == 1
    finally:
        module.set_allocator(0)
    assert module.allocator() == before


def grows(call: Callable[[], Any], count: int) -> int:
    """KiB by which the process grows over `count` calls, after a warm-up as long."""
    for _ in range(count):
        call()
    before = resident_kib()
    for _ in range(count):
        call()
    return resident_kib() - before


def test_ten_thousand_calls_leave_memory_flat(ops: SimpleNamespace) -> None:
    text = "x" * 4096
    f = jax.jit(lambda x: ops.echo(ops.axpy(ops.scratch(x), x, a=2.0), text))
    assert grows(lambda: f(X).block_until_ready(), 10_000) < 4096


@pytest.mark.slow
def test_thousands_of_errors_leave_memory_flat(ops: SimpleNamespace) -> None:
    f = jax.jit(lambda x: ops.fail(x, "ValueError"))

    def call() -> None:
        with pytest.raises(jax.errors.JaxRuntimeError):
            f(X).block_until_ready()

    assert grows(call, 2_000) < 4096


def test_a_dead_program_lets_its_kernel_go() -> None:
    class Kernel:
        def __call__(self, x: Any, out: Any) -> None:
            np.from_dlpack(out)[...] = np.from_dlpack(x)

    kernel = Kernel()
    alive = weakref.ref(kernel)
    graphffi.register_global_func("jaxtest.mortal", kernel, override=True)

    def f(x: Any) -> Any:
        return graphffi.call_tvm_ffi("jaxtest.mortal", x, out=graphffi.like(x))

    programs = [jax.jit(f).lower(X).compile() for _ in range(3)]
    for program in programs:
        np.testing.assert_array_equal(program(X), X)
    graphffi.remove_global_func("jaxtest.mortal")
    del kernel
    gc.collect()
    assert alive() is not None
    del program, programs, f  # jax.jit caches programs as long as the function lives
    gc.collect()
    assert alive() is None


def test_a_million_calls_with_attributes_leave_memory_flat(ops: SimpleNamespace) -> None:
    def chain(x: Any) -> Any:
        for i in range(500):
            x = ops.axpy(x, x, a=float(i % 7))
        return ops.attributes(x, 1, 2.0, True, "text" * 8, "int8", "cuda:1", list(range(8)))

    f = jax.jit(chain)
    assert grows(lambda: f(X).block_until_ready(), 1_000) < 4096


@pytest.mark.slow
def test_thousands_of_distinct_ops(library: str) -> None:
    count = 5_000
    ops = [
        graphffi.define_op(
            f"jaxmany::f{i}",
            schema="(Tensor x) -> Tensor",
            kernel=f"{library}::axpy",
            plan=f"{i}.0, x, out, x",
            infer=graphffi.like,
        )
        for i in range(count)
    ]
    for first in range(0, count, 1000):
        ys = jax.jit(lambda x, f=first: [op(x) for op in ops[f : f + 1000]])(X)
        for i, y in enumerate(ys, first):
            np.testing.assert_allclose(y, (i + 1) * X, rtol=1e-6)

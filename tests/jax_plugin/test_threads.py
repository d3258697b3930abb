# SPDX-License-Identifier: Apache-2.0
"""Many threads, Python kernels on XLA's threads, and the end of the process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi


def test_eight_threads_of_mixed_calls(ops: SimpleNamespace) -> None:
    def double(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * 2

    graphffi.register_global_func("jaxtest.threads_double", double, override=True)
    chain = jax.jit(lambda x: ops.axpy(ops.scratch(ops.add_one(x)) @ jnp.eye(4), x, a=2.0))
    callback = jax.jit(
        lambda x: graphffi.call_tvm_ffi("jaxtest.threads_double", x, out=graphffi.like(x))
    )
    fails = jax.jit(lambda x: ops.fail(x, "ValueError"))

    def work(seed: int) -> int:
        errors = 0
        for i in range(60):
            x = jnp.full((4, 4), float(seed * 100 + i))
            np.testing.assert_allclose(chain(x), 3 * np.asarray(x) + 2)
            np.testing.assert_allclose(callback(x), 2 * np.asarray(x))
            np.testing.assert_allclose(ops.sum_list([x, x]), 2 * np.asarray(x))
            with pytest.raises(jax.errors.JaxRuntimeError):
                fails(x).block_until_ready()
            errors += 1
        return errors

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 8 * 60


def test_python_kernels_may_call_ops(ops: SimpleNamespace) -> None:
    def nested(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = ops.add_one(np.from_dlpack(x))

    graphffi.register_global_func("jaxtest.nested", nested, override=True)
    x = jnp.arange(4, dtype=jnp.float32)
    y = jax.jit(lambda x: graphffi.call_tvm_ffi("jaxtest.nested", x, out=graphffi.like(x)))(x)
    np.testing.assert_allclose(y, x + 1)


EXIT_SCRIPT = """
import graphffi, jax, jax.numpy as jnp

def slow(x, out):
    sum(range(2_000_000))  # is still at work when the program ends

graphffi.register_global_func("slow", slow)

@jax.jit
def f(x):
    for _ in range({count}):
        x = graphffi.call_tvm_ffi("slow", x @ x, out=graphffi.like(x))
    return x

f(jnp.ones((64, 64)))
print("leaving")
"""


@pytest.mark.parametrize("count", [1, 20])
def test_exit_with_a_call_in_flight(run_python: Callable[[str], Any], count: int) -> None:
    result = run_python(EXIT_SCRIPT.format(count=count))
    assert "leaving" in result.stdout
    assert result.returncode == 0, result.stderr

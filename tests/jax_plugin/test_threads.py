# SPDX-License-Identifier: Apache-2.0
"""Many threads, Python kernels on XLA's threads, and the end of the process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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


FORKS_DURING_A_CALL = """
import os, threading, warnings
import graphffi, jax
from graphffi_jax._library import _load

warnings.simplefilter("ignore")  # JAX warns of fork
has_begun, may_end = threading.Event(), threading.Event()

def kernel(x, out):
    has_begun.set()
    may_end.wait(60)

op = graphffi.define_op(
    "threads::forks", schema="(Tensor x) -> Tensor", kernel=kernel, infer=graphffi.like
)
thread = threading.Thread(target=lambda: jax.jit(op)(jax.numpy.ones(2)).block_until_ready())
thread.start()
assert has_begun.wait(60)
if child := os.fork():
    print("status", os.waitpid(child, 0)[1])
    may_end.set()
    thread.join()
else:
    os._exit(0 if _load().graphffi_jax_close_gate(0) else 1)
"""


def test_a_child_of_fork_waits_for_no_call_at_its_end() -> None:
    command = [sys.executable, "-c", FORKS_DURING_A_CALL]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("status 0\n", "")


SITES = """
import ctypes, sys, threading
import graphffi, graphffi_jax, jax.numpy
from tests.jax_plugin.imitated_xla import ImitatedXla

graphffi.register_global_func("threads.nothing", lambda *args: None)
with_gil, without = ImitatedXla(ctypes.PyDLL(sys.argv[1])), ImitatedXla(ctypes.CDLL(sys.argv[2]))
# The first array of a plan looks a function up, for which it may take the GIL.
thread = threading.Thread(target=without.run, args=("threads.nothing",), kwargs={"plan": "(1, 2)"})
thread.start()
while thread.is_alive():
    assert "state deleted" in with_gil.run("threads.nothing")
"""


def test_a_thread_with_the_gil_waits_for_no_site_that_is_made(
    fake_xla_path: Path, tmp_path: Path
) -> None:
    # Each has variables of its own.
    paths = [shutil.copy(fake_xla_path, tmp_path / f"{i}.so") for i in range(2)]
    command = [sys.executable, "-c", SITES, *paths]
    subprocess.run(command, check=True, timeout=300, cwd=Path(__file__).parents[2])


def test_python_kernels_may_call_ops(ops: SimpleNamespace) -> None:
    def nested(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = ops.add_one(np.from_dlpack(x))

    graphffi.register_global_func("jaxtest.nested", nested, override=True)
    x = jnp.arange(4, dtype=jnp.float32)
    y = jax.jit(lambda x: graphffi.call_tvm_ffi("jaxtest.nested", x, out=graphffi.like(x)))(x)
    np.testing.assert_allclose(y, x + 1)


MIXED_SCRIPT = """
import threading
import jax
jax.config.update("jax_cpu_enable_async_dispatch", {is_async})
import graphffi, jax.numpy as jnp, numpy as np

def double(x, out):
    np.from_dlpack(out)[...] = np.from_dlpack(x) * 2

def nested(x, out):
    np.from_dlpack(out)[...] = np.from_dlpack(x) + 1

graphffi.register_global_func("double", double)
graphffi.register_global_func("nested", nested)
call = lambda name, x: graphffi.call_tvm_ffi(name, x, out=graphffi.like(x))
inner = jax.jit(lambda x: call("double", x) @ jnp.eye(4))
outer = jax.jit(lambda x: jax.jit(lambda y: call("nested", inner(y)))(x) + inner(x))
start, wrong = threading.Barrier(8), []

def work(seed):
    start.wait()
    for i in range(40):
        x = jnp.full((4, 4), float(100 * seed + i))
        y = outer(x)
        z = call("double", call("nested", x))
        value = 100 * seed + i
        if not (np.asarray(y) == 4 * value + 1).all() or float(z[0, 0]) != 2 * value + 2:
            wrong.append((seed, i))

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("wrong:", wrong)
"""


@pytest.mark.parametrize("is_async", [True, False])
def test_nested_programs_with_and_without_async_dispatch(
    run_python: Callable[[str], Any], is_async: bool
) -> None:
    result = run_python(MIXED_SCRIPT.format(is_async=is_async))
    assert result.returncode == 0, result.stderr
    assert "wrong: []" in result.stdout


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


EFFECT_SCRIPT = """
import graphffi, jax, jax.numpy as jnp

def tell(x):
    sum(range(2_000_000))
    print("told")

graphffi.register_global_func("tell", tell)
call = lambda x: graphffi.call_tvm_ffi("tell", x @ x, has_side_effect={effect!r})
jax.jit(call)(jnp.ones((64, 64)))
"""


@pytest.mark.parametrize("effect", [True, "ordered"])
def test_side_effects_in_flight_happen_before_the_exit(
    run_python: Callable[[str], Any], effect: Any
) -> None:
    result = run_python(EFFECT_SCRIPT.format(effect=effect))
    assert result.stdout == "told\n"
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("count", [1, 20])
def test_exit_with_a_call_in_flight(run_python: Callable[[str], Any], count: int) -> None:
    result = run_python(EXIT_SCRIPT.format(count=count))
    assert "leaving" in result.stdout
    assert result.returncode == 0, result.stderr

# SPDX-License-Identifier: Apache-2.0
"""Python kernels that run JAX programs and wait for them, on as few threads as there can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

# One thread of XLA's for programs and one for what is in them. The programs are too heavy to be run
# by the thread that calls them, and their arguments are not there yet when they are called.
SETUP = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import faulthandler
import jax
faulthandler.dump_traceback_later(200, exit=True)
"""

LEVELS_SCRIPT = (
    SETUP
    + """
jax.config.update("jax_cpu_enable_async_dispatch", {is_async})
import threading
import graphffi, graphffi_jax, jax.numpy as jnp, numpy as np

def calls(program):
    @graphffi_jax.nested_programs()
    def kernel(x, out):
        np.from_dlpack(out)[...] = sum(np.asarray(y) for y in [program(jnp.array(x)) for x in
                                       [np.from_dlpack(x)] * 2])
    return kernel

def around(program):
    kernel = calls(program)
    return jax.jit(lambda x: graphffi_jax.call(kernel, x @ eye, out=x) @ eye
                   + graphffi_jax.call(kernel, x @ eye, out=x))

eye = jnp.eye(256)
one = around(jax.jit(lambda x: (x @ eye) @ eye))
three = around(around(one))
x = np.ones((256, 256), np.float32)
queued = [one(jnp.array(x * i)) for i in range(40)]
print([float(y[0, 0]) for y in queued] == [4.0 * i for i in range(40)])

start, sums = threading.Barrier(8), []
def work():
    start.wait()
    sums.extend(float(three(jnp.array(x))[0, 0]) for _ in range(2))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sums == [64.0] * 16)
"""
)


@pytest.mark.parametrize("is_async", [True, False])
def test_kernels_wait_for_programs_on_one_core(
    run_python: Callable[[str], Any], is_async: bool
) -> None:
    result = run_python(LEVELS_SCRIPT.replace("{is_async}", str(is_async)))
    assert (result.stdout, result.stderr) == ("True\nTrue\n", "")
    assert result.returncode == 0


THREADS_SCRIPT = """
import faulthandler
faulthandler.dump_traceback_later(200, exit=True)
import threading
import jax
jax.config.update("jax_cpu_enable_async_dispatch", False)
import graphffi_jax, jax.numpy as jnp, numpy as np

started, inside = False, threading.Barrier(32)

@graphffi_jax.nested_programs()
def kernel(x, out):
    if started:
        inside.wait()
    y = step(jnp.array(np.full((128, 128), 1 / 128, np.float32)))
    np.from_dlpack(out)[...] = np.from_dlpack(x) + np.asarray(y)[0, 0] * 128

step = jax.jit(lambda x: x @ x)
f = jax.jit(lambda x: graphffi_jax.call(kernel, x, out=x))
x, sums = jnp.ones(2), []
f(x).block_until_ready()
started = True
threads = [threading.Thread(target=lambda: sums.append(float(f(x)[0]))) for _ in range(32)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sums == [2.0] * 32)
"""


def test_as_many_kernels_wait_as_xla_begins_programs(run_python: Callable[[str], Any]) -> None:
    result = run_python(THREADS_SCRIPT)
    assert (result.stdout, result.stderr) == ("True\n", "")


SHARDED_SCRIPT = (
    SETUP
    + """
jax.config.update("jax_num_cpu_devices", 2)
from functools import partial
import graphffi_jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

places = set()

@jax.jit
def inner(x):
    return graphffi_jax.call(deepest, x @ x, out=x) @ x

@graphffi_jax.nested_programs()
def deepest(x, out):
    places.add((jax.config.jax_default_device.id, 2))
    np.from_dlpack(out)[...] = jax.jit(lambda x: x @ x)(jnp.array(np.from_dlpack(x)))

@graphffi_jax.nested_programs()
def kernel(x, out):
    places.add((jax.config.jax_default_device.id, 1))
    np.from_dlpack(out)[...] = inner(jnp.array(np.from_dlpack(x)))

shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map
mesh = Mesh(np.array(jax.devices()), ("rows",))

@jax.jit
@partial(shard_map, mesh=mesh, in_specs=P("rows"), out_specs=P())
def f(x):
    y = jax.lax.psum(x, "rows")
    return jax.lax.psum(graphffi_jax.call(kernel, y, out=y), "rows")

x = jax.device_put(np.tile(np.eye(64), (2, 1)), NamedSharding(mesh, P("rows")))
print(float(f(x)[0, 0]), sorted(places))
"""
)


def test_programs_on_several_devices_may_nest_others(run_python: Callable[[str], Any]) -> None:
    result = run_python(SHARDED_SCRIPT)
    assert result.returncode == 0, result.stderr
    # Twice (2 ** 3) ** 2, by devices that come after the process's own two.
    assert result.stdout == "64.0 [(2, 1), (3, 2)]\n"


EXIT_SCRIPT = (
    SETUP
    + """
import graphffi_jax, jax.numpy as jnp, numpy as np

@graphffi_jax.nested_programs()
def kernel(x, out):
    for _ in range(20):
        y = jax.jit(lambda x: graphffi_jax.call(lambda x, out: None, x @ x, out=x) @ x)(
            jnp.array(np.from_dlpack(x)))
    y.block_until_ready()

f = jax.jit(lambda x: graphffi_jax.call(kernel, x @ x, out=x))
ys = [f(jnp.ones((256, 256))) for _ in range(3)]
print("leaving")
"""
)


def test_exit_while_kernels_run_programs(run_python: Callable[[str], Any]) -> None:
    result = run_python(EXIT_SCRIPT)
    assert "leaving" in result.stdout
    assert result.returncode == 0, result.stderr


def call(kernel: Callable[..., None], x: Any) -> Any:
    return jax.jit(lambda x: graphffi_jax.call(kernel, x, out=x) + 0)(x)


def test_a_kernel_that_compiles_a_program_outside_of_the_block_is_an_error() -> None:
    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = jax.jit(lambda x: x + 1)(np.array(np.from_dlpack(x)))

    text = (
        "graphffi: expected a kernel that runs no JAX programs on the CPU that its own program "
        "runs on, got one that compiles a program, for which it may wait forever; run it in "
        r"graphffi_jax.nested_programs\(\)"
    )
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            call(kernel, jnp.ones(2)).block_until_ready()
    with pytest.raises(RuntimeError, match=text) as caught, graphffi_jax.errors():
        call(kernel, jnp.ones(2)).block_until_ready()
    assert type(caught.value) is RuntimeError
    nested = graphffi_jax.nested_programs()(kernel)
    np.testing.assert_array_equal(call(nested, jnp.ones(2)), np.full(2, 2.0))
    np.testing.assert_array_equal(jax.jit(lambda x: x + 2)(jnp.ones(2)), np.full(2, 3.0))


def test_arrays_go_into_the_block_and_come_out_of_it() -> None:
    weight, seen = jnp.arange(4.0), []

    @graphffi_jax.nested_programs()
    def kernel(x: Any, out: Any) -> None:
        y = jnp.array(np.from_dlpack(x)) * weight
        seen.append(y)
        np.from_dlpack(out)[...] = y

    np.testing.assert_array_equal(call(kernel, jnp.full(4, 2.0)), 2 * weight)
    assert seen[0].device not in jax.devices()
    later = jax.jit(jnp.add)(seen[0], weight)
    assert later.device == weight.device
    np.testing.assert_array_equal(later, 3 * weight)


def test_the_block_does_nothing_outside_of_programs() -> None:
    devices = []

    @graphffi_jax.nested_programs()
    def kernel(x: Any, out: Any) -> None:
        devices.append(jnp.ones(2).device)

    graphffi.register_global_func("jaxtest.not_nested", kernel, override=True)
    graphffi.get_global_func("jaxtest.not_nested")(np.ones(2), np.ones(2))
    assert devices == [jax.devices()[0]]


@pytest.mark.parametrize("version", [(0, 1), (0, 5)])
@pytest.mark.parametrize(("platform", "expected"), [("cpu", 3), ("CUDA", None)])
def test_a_kernel_knows_the_cpu_of_its_program(
    fake_xla: Callable[..., str], version: tuple[int, int], platform: str, expected: int | None
) -> None:
    ordinals = []
    get = graphffi.get_global_func("graphffi_jax.cpu_ordinal")
    graphffi.register_global_func(
        "jaxtest.ordinal", lambda x, out: ordinals.append(get()), override=True
    )
    log = fake_xla(version=version, func="jaxtest.ordinal", platform=platform)
    assert "execute: ok" in log
    assert ordinals == [expected]
    assert get() is None


class Refusal(Exception):
    pass


def refuse(x: Any, out: Any) -> None:
    raise Refusal


def test_the_block_ends_where_a_kernel_raises() -> None:
    @graphffi_jax.nested_programs()
    def kernel(x: Any, out: Any) -> None:
        raise Refusal

    with pytest.raises(Refusal), graphffi_jax.errors():
        call(kernel, jnp.ones(2)).block_until_ready()
    assert jnp.ones(2).device == jax.devices()[0]


def test_errors_of_nested_programs_come_out_of_the_outer_one() -> None:
    @graphffi_jax.nested_programs()
    def kernel(x: Any, out: Any) -> None:
        with graphffi_jax.errors():
            call(refuse, jnp.array(np.from_dlpack(x))).block_until_ready()

    with pytest.raises(Refusal), graphffi_jax.errors():
        call(kernel, jnp.ones(2)).block_until_ready()


def test_a_kernel_may_catch_errors_of_nested_programs() -> None:
    @graphffi_jax.nested_programs()
    def kernel(x: Any, out: Any) -> None:
        try:
            with graphffi_jax.errors():
                call(refuse, jnp.array(np.from_dlpack(x))).block_until_ready()
        except Refusal:
            np.from_dlpack(out)[...] = 5

    np.testing.assert_array_equal(call(kernel, jnp.ones(2)), np.full(2, 5.0))


def test_targets_and_side_effects_may_nest_programs() -> None:
    told: list[float] = []

    @graphffi_jax.nested_programs()
    def tell(x: Any) -> None:
        told.append(float(jnp.array(np.from_dlpack(x)).sum()))

    @graphffi_jax.nested_programs()
    def double(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = jnp.array(np.from_dlpack(x)) * 2

    graphffi_jax.register_ffi_target("nested.double", double, ["args", "rets"], platform="cpu")

    @jax.jit
    def f(x: Any) -> Any:
        graphffi_jax.call(tell, x, has_side_effect="ordered")
        y = jax.ffi.ffi_call("nested.double", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
        graphffi_jax.call(tell, y, has_side_effect="ordered")
        return y

    np.testing.assert_array_equal(f(jnp.ones(2)), np.full(2, 2.0))
    jax.effects_barrier()
    assert told == [2.0, 4.0]

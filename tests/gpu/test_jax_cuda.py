# SPDX-License-Identifier: Apache-2.0
"""JAX on a GPU: XLA's streams, its scratch memory, command buffers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import graphffi

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
graphffi_jax = pytest.importorskip("graphffi_jax")


def gpus() -> list[Any]:
    try:
        return list(jax.devices("gpu"))
    except RuntimeError:
        return []


pytestmark = pytest.mark.skipif(not gpus(), reason="needs a GPU for jax")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 1000)])
def test_results(ops: SimpleNamespace, dtype: str, shape: tuple[int, ...]) -> None:
    x = jnp.ones(shape, dtype)
    for wrap in (lambda f: f, jax.jit):
        assert jnp.array_equal(wrap(lambda x: ops.scale(x, 3.0) + 1)(x), x * 3 + 1)
        # Between the two kernels lies scratch memory of XLA.
        assert jnp.array_equal(wrap(ops.scale_twice)(x), x * 4)


def test_calls_are_ordered_with_what_xla_runs(ops: SimpleNamespace) -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return ops.scale(ops.late_fill(x * 0, 3.0), 2.0) + x

    x = jnp.ones(256)
    for _ in range(3):
        x = step(x)
    assert x[0] == 19.0


def test_a_long_chain_of_recordable_calls(ops: SimpleNamespace) -> None:
    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(16):
            x = ops.scale(x, 2.0)
        return x

    for value in (1.0, 3.0):
        assert chain(jnp.full((64,), value))[0] == value * 2**16


def test_command_buffers_are_replayed_with_other_arrays(ops: SimpleNamespace) -> None:
    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(8):
            x = ops.scale(ops.scale_through(x, 0.5), 4.0)
        return x

    x = jnp.arange(1024.0)
    compiled = chain.lower(x).compile({"xla_gpu_graph_min_graph_size": 1})
    for value in range(4):  # XLA records at the second run, and updates what it recorded
        given = x + value
        assert jnp.array_equal(compiled(given), given)


def test_a_recordable_kernel_may_not_allocate(ops: SimpleNamespace) -> None:
    with pytest.raises(Exception, match="can't allocate tensors; declare workspace="):
        jax.jit(ops.allocates_in_graph)(jnp.ones(64)).block_until_ready()


def test_a_recorded_kernel_allocates_from_its_workspace(ops: SimpleNamespace) -> None:
    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(8):
            x = ops.allocates_what_it_declares(x, 2.0)
        return x

    for value in (1.0, 3.0, 5.0):
        assert chain(jnp.full((64,), value))[-1] == value * 4**8
    use = graphffi_jax.inspect().workspaces["gpu::allocates_what_it_declares"]
    assert use == (64 * 4, 64 * 4)


def test_a_small_workspace_says_what_it_takes(ops: SimpleNamespace) -> None:
    for call in (ops.declares_too_little, jax.jit(ops.declares_too_little)):
        with pytest.raises(MemoryError, match="at least 256 bytes, got 100"), graphffi_jax.errors():
            call(jnp.ones(64)).block_until_ready()


def test_errors_leave_the_device_usable(ops: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match="expected float32 or float16"), graphffi_jax.errors():
        jax.jit(ops.scale)(jnp.ones(64, "int32")).block_until_ready()
    assert ops.scale_twice(jnp.ones(64))[0] == 4.0


def test_a_named_target(library: str) -> None:
    spec = ["args", "rets", "attrs.factor"]
    graphffi_jax.register_ffi_target("gpu.scale", f"{library}::scale", spec, platform="gpu")
    x = jnp.arange(6.0)
    call = jax.ffi.ffi_call("gpu.scale", jax.ShapeDtypeStruct(x.shape, x.dtype))
    assert jnp.array_equal(jax.jit(lambda x: call(x, factor=3.0))(x), x * 3)


def test_a_batch_of_calls_is_a_loop(ops: SimpleNamespace) -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    one = graphffi.define_op(
        "gpu::one_row",
        schema="(Tensor x, float factor=2.0) -> Tensor",
        kernel=ops.scale_twice.definition.kernels[0].reference,
        plan="x, out, factor",
        infer=lambda x, factor: graphffi.like(x),
        vmap="sequential",
    )
    assert jnp.array_equal(jax.jit(jax.vmap(one))(x), x * 4)


@pytest.mark.needs("flatbuffers")
def test_an_exported_program_for_cpu_and_gpu(ops: SimpleNamespace) -> None:
    export = pytest.importorskip("jax.export")
    x = jnp.arange(6.0)
    program = export.export(
        jax.jit(ops.scale_twice),
        platforms=("cpu", "cuda"),
        disabled_checks=graphffi_jax.export_checks(),
    )(jax.ShapeDtypeStruct(x.shape, x.dtype))
    again = export.deserialize(program.serialize())
    assert jnp.array_equal(again.call(x), x * 4)
    on_cpu = jax.device_put(x, jax.devices("cpu")[0])
    text = "expected a tensor on cuda, got cpu"
    with pytest.raises(ValueError, match=text), graphffi_jax.errors():
        again.call(on_cpu).block_until_ready()


def test_a_donated_operand_is_updated_in_place(library: str) -> None:
    op = graphffi.define_op(
        "gpu::scale_in_place",
        schema="(Tensor(a!) x, float factor=2.0) -> ()",
        kernel=f"{library}::scale",
        plan="x, x, factor",
    )
    x = jnp.ones(1024)
    where = x.unsafe_buffer_pointer()
    y = jax.jit(op, donate_argnums=0)(x)
    assert y.unsafe_buffer_pointer() == where
    assert y[5] == 2.0


def test_vmap_on_the_gpu(ops: SimpleNamespace) -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    assert jnp.array_equal(jax.vmap(ops.scale)(x), x * 2)


@pytest.mark.skipif(len(gpus()) < 2, reason="needs two GPUs")
def test_every_device_runs_its_own_calls(ops: SimpleNamespace) -> None:
    for device in gpus():
        x = jax.device_put(jnp.ones(64), device)
        y = jax.jit(ops.scale_twice)(x)
        assert y.devices() == {device}
        assert y[0] == 4.0

# SPDX-License-Identifier: Apache-2.0
"""What XLA compiles for a GPU. It takes JAX's CUDA plugin, but no GPU: nothing is run.

On a machine without a GPU, set JAX_PLATFORMS=cpu, or JAX refuses its plugin.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphffi

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
graphffi_jax = pytest.importorskip("graphffi_jax")

from tests.gpu.gpu_topology import describe_gpus, operand_on  # noqa: E402 - needs jax

ROOT = Path(__file__).resolve().parents[2]
COLLECTIVES = ("all-gather", "all-to-all", "all-reduce", "collective-permute")


@pytest.fixture(scope="module")
def devices() -> list[Any]:
    """Four GPUs of one machine, which need not exist."""
    try:
        return describe_gpus(4)
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"needs JAX's CUDA plugin: {error}")


@pytest.fixture
def x(devices: list[Any]) -> Any:
    """An operand on the first of them."""
    return operand_on(devices[0], (1024,))


def compile_jit(function: Any, operand: Any, **options: Any) -> Any:
    """What XLA makes of the function, for the operand's device."""
    return jax.jit(function, **options).lower(operand).compile()


def repeat(op: Any, times: int) -> Any:
    def chain(x: Any) -> Any:
        for _ in range(times):
            x = op(x)
        return x

    return chain


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int4", "bool"])
@pytest.mark.parametrize("shape", [(), (5, 1000)])
def test_calls_compile(
    ops: SimpleNamespace, devices: list[Any], dtype: str, shape: tuple[int, ...]
) -> None:
    x = operand_on(devices[0], shape, dtype)
    text = compile_jit(lambda x: ops.scale(x, 3.0), x).as_text()
    assert 'custom_call_target="tvm_ffi.call_graph"' in text


@pytest.mark.parametrize(("chain", "recorded"), [("recordable", 8), ("workspace", 8), ("other", 0)])
def test_recordable_calls_become_one_command_buffer(
    library: str, devices: list[Any], chain: str, recorded: int
) -> None:
    log = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "command_buffer_conversion_pass=5"}
    command = [sys.executable, "-m", "tests.gpu.command_buffers", library, chain]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **log}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "CommandBufferConfig" in done.stderr
    buffers = re.findall(r"Creating command buffer thunk .*thunks: (.*)", done.stderr)
    assert [len(buffer.split(",")) for buffer in buffers] == [recorded] * bool(recorded)


def test_workspaces_are_memory_that_xla_plans(ops: SimpleNamespace, x: Any) -> None:
    usage = compile_jit(repeat(ops.scale_through, 8), x).memory_analysis()
    # Each call's is 65536 bytes, and all take the same.
    assert 1 << 16 <= usage.temp_size_in_bytes < 2 << 16


def test_kernels_are_looked_for_when_a_program_is_compiled(library: str, x: Any) -> None:
    op = graphffi.define_op(
        "gpu::no_kernel",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::no_kernel",
        infer=graphffi.like,
    )
    text = "::no_kernel': expected a function 'no_kernel' in the library, found none"
    with pytest.raises(KeyError, match=text), graphffi_jax.errors():
        compile_jit(op, x)


def test_a_donated_operand_is_not_copied(library: str, x: Any) -> None:
    op = graphffi.define_op(
        "gpu::scaled_in_place",
        schema="(Tensor(a!) x, float factor=2.0) -> ()",
        kernel=f"{library}::scale",
        plan="x, x, factor",
    )
    text = compile_jit(op, x, donate_argnums=0).as_text()
    assert "input_output_alias={ {}: (0, {}, may-alias) }" in text
    assert " copy(" not in text


def test_a_batch_of_calls_is_a_loop(ops: SimpleNamespace, devices: list[Any]) -> None:
    op = graphffi.define_op(
        "gpu::of_each_row",
        schema="(Tensor x, float factor=2.0) -> Tensor",
        kernel=ops.scale_twice.definition.kernels[0].reference,
        plan="x, out, factor",
        infer=lambda x, factor: graphffi.like(x),
        vmap="sequential",
    )
    text = compile_jit(jax.vmap(op), operand_on(devices[0], (3, 4))).as_text()
    assert " while(" in text
    assert text.count('custom_call_target="tvm_ffi.call"') == 1


def test_a_named_target_compiles(library: str, x: Any) -> None:
    spec = ["args", "rets", "attrs.factor"]
    graphffi_jax.register_ffi_target("gpu.scaled", f"{library}::scale", spec, platform="gpu")
    call = jax.ffi.ffi_call("gpu.scaled", jax.ShapeDtypeStruct(x.shape, x.dtype))
    text = compile_jit(lambda x: call(x, factor=3.0), x).as_text()
    assert 'custom_call_target="gpu.scaled"' in text


def test_calls_are_split_between_gpus(library: str, devices: list[Any]) -> None:
    op = graphffi.define_op(
        "gpu::scaled_rows",
        schema="(Tensor x, float factor=2.0) -> Tensor",
        kernel=f"{library}::scale",
        plan="x, out, factor",
        infer=lambda x, factor: graphffi.like(x),
        dims="n [k] -> n [k]",
    )
    mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    x = jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=rows)
    text = compile_jit(op, x).as_text()
    assert not [kind for kind in COLLECTIVES if kind in text]
    assert re.search(r"= f32\[2,16\]\S* custom-call\(", text)


@pytest.mark.needs("flatbuffers")
def test_an_exported_program_compiles(ops: SimpleNamespace, x: Any) -> None:
    export = pytest.importorskip("jax.export")
    program = export.export(
        jax.jit(ops.scale), platforms=("cuda",), disabled_checks=graphffi_jax.export_checks()
    )(jax.ShapeDtypeStruct(x.shape, x.dtype))
    again = export.deserialize(program.serialize())
    text = compile_jit(again.call, x).as_text()
    assert 'custom_call_target="tvm_ffi.call_graph"' in text

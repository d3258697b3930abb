# SPDX-License-Identifier: Apache-2.0
"""Every dtype of JAX reaches kernels as DLPack's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

NARROW = (
    "bool int2 int4 int8 int16 int32 uint2 uint4 uint8 uint16 uint32 float16 bfloat16 float32"
    " complex64 float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz"
    " float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn"
).split()
WIDE = ["int64", "uint64", "float64", "complex128"]


@pytest.fixture
def x64() -> Iterator[None]:
    """JAX with 64-bit dtypes."""
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def array(name: str, shape: tuple[int, ...]) -> Any:
    dtype = getattr(jnp, "bool_" if name == "bool" else name)
    values = np.arange(int(np.prod(shape))).reshape(shape) % 2
    return jnp.asarray(values.astype(np.float32)).astype(dtype)


def check(ops: SimpleNamespace, name: str) -> None:
    expected = graphffi.dtype(name)
    both = jax.jit(lambda x: (ops.describe(x), ops.copy_bytes(x)))
    for shape in ((3, 7), (), (0, 3)):
        x = array(name, shape)
        described, y = both(x)
        described = np.asarray(described)
        assert described[:4].tolist() == [expected.code, expected.bits, 1, 1]
        assert described[4:6].tolist() == [len(shape), 1]
        assert (y.dtype, y.shape) == (x.dtype, x.shape)
        assert np.asarray(y).tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("name", NARROW)
def test_a_dtype_arrives_and_returns(ops: SimpleNamespace, name: str) -> None:
    check(ops, name)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.usefixtures("x64")
def test_a_64_bit_dtype_arrives_and_returns(ops: SimpleNamespace, name: str) -> None:
    check(ops, name)


def test_the_list_of_dtypes_is_complete() -> None:
    scalars = {n for n in dir(jnp) if isinstance(getattr(getattr(jnp, n), "dtype", None), np.dtype)}
    names = {
        np.dtype(getattr(jnp, n)).name
        for n in scalars
        if isinstance(getattr(jnp, n), type(jnp.int8))
    }
    # XLA has no buffers of these, or takes them for bool.
    missing = {"int1", "uint1", "float6_e2m3fn", "float6_e3m2fn"}
    assert names - set(NARROW) - set(WIDE) - missing == set()


def test_sub_byte_buffers_are_packed_low_bits_first() -> None:
    seen = []
    graphffi.register_global_func(
        "jaxtest.nibbles", lambda x, out: seen.append((x.shape, x.dtype)), override=True
    )
    x = jnp.asarray([1, 2, 3, 4, 5], jnp.int4)
    y = graphffi.call_tvm_ffi("jaxtest.nibbles", x, out=graphffi.empty((1,), "float32"))
    jax.block_until_ready(y)
    assert seen == [((5,), "int4")]


@pytest.mark.parametrize("name", WIDE)
def test_a_64_bit_result_needs_x64(name: str) -> None:
    op = graphffi.define_op(
        f"jaxtest::wide_{name}",
        schema="(Tensor x) -> Tensor",
        kernel="nowhere",
        infer=lambda x: graphffi.empty((2,), name),
    )
    text = rf"jaxtest::wide_{name}: result 'out': expected a dtype that JAX holds without .* {name}"
    with pytest.raises(TypeError, match=text):
        op(jnp.zeros(2))
    with pytest.raises(TypeError, match=text):
        jax.jit(op)(jnp.zeros(2))


def returned_by_function(name: str) -> Any:
    """Calls functions that return what JAX would narrow, in every place of a result."""
    wide = np.array([2**40, 2**33 + 5]).astype(name)
    tensor = graphffi.from_dlpack(wide)
    graphffi.register_global_func("jaxtest.one", lambda x: tensor, override=True)
    graphffi.register_global_func("jaxtest.list", lambda x: [1, [tensor]], override=True)
    graphffi.register_global_func("jaxtest.map", lambda x: {"a": tensor}, override=True)
    found = []
    for function in ("jaxtest.one", "jaxtest.list", "jaxtest.map"):
        found.append((function, graphffi.get_global_func(function)))
    return wide, found


@pytest.mark.parametrize("name", WIDE)
def test_a_64_bit_result_of_a_function_needs_x64(name: str) -> None:
    _, functions = returned_by_function(name)
    for label, function in functions:
        text = rf"^{label}: result: expected a dtype that JAX holds without .*, got {name}; use "
        with pytest.raises(TypeError, match=text):
            function(jnp.zeros(2))
    nameless = graphffi.Function(lambda x: functions[0][1](np.zeros(2)))
    with pytest.raises(TypeError, match="result: expected a dtype that JAX holds without"):
        nameless(jnp.zeros(2))
    text = rf"^jaxtest.one: result '0': expected a dtype that JAX holds without .*, got {name}; use"
    with pytest.raises(TypeError, match=text):
        graphffi_jax.call("jaxtest.one", jnp.zeros(2), out=jax.ShapeDtypeStruct((2,), name))
    out = graphffi.empty((2,), name)
    with pytest.raises(TypeError, match=text):
        graphffi.call_tvm_ffi("jaxtest.one", jnp.zeros(2), out=out)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", WIDE)
def test_a_64_bit_result_of_a_function_arrives(name: str) -> None:
    wide, functions = returned_by_function(name)
    one, many, mapped = (function(jnp.zeros(2)) for _, function in functions)
    for found in (one, many[1][0], mapped["a"]):
        assert (found.dtype, found.tolist()) == (wide.dtype, wide.tolist())


def test_a_64_bit_result_of_a_library_needs_x64() -> None:
    source = """
    tvm::ffi::Tensor ids(tvm::ffi::TensorView x) {
      static int64_t values[] = {int64_t{1} << 40};
      static int64_t shape[] = {1};
      static DLManagedTensor managed;
      managed.dl_tensor = {values, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, shape, nullptr, 0};
      return tvm::ffi::Tensor::FromDLPack(&managed);
    }
    """
    module = graphffi.cpp.load_inline("wide_ids", cpp_sources=source, functions=["ids"])
    assert np.asarray(module.ids(np.zeros(2))).tolist() == [2**40]
    with pytest.raises(TypeError, match=r"^ids: result: expected a dtype that JAX holds .* int64"):
        module.ids(jnp.zeros(2))


def test_a_64_bit_operand_needs_x64(ops: SimpleNamespace) -> None:
    text = r"jaxtest::axpy: operand 'y': expected a dtype that JAX holds without .*, got float64"
    for operand in (np.zeros(2), graphffi.from_dlpack(np.zeros(2))):
        with pytest.raises(TypeError, match=text):
            ops.axpy(jnp.zeros(2), operand)


@pytest.mark.parametrize("name", ["float32x4", "uint1", "float6_e2m3fn", "float6_e3m2fn"])
def test_a_result_dtype_that_jax_lacks_is_refused(name: str) -> None:
    op = graphffi.define_op(
        f"jaxtest::lacks_{name}",
        schema="(Tensor x) -> Tensor",
        kernel="nowhere",
        infer=lambda x: graphffi.empty((2,), name),
    )
    text = f"jaxtest::lacks_{name}: result 'out': expected a dtype that JAX has, got {name}\\b"
    for call in (op, jax.jit(op)):
        with pytest.raises(TypeError, match=text):
            call(jnp.zeros(2))


TABLE = Path(__file__).parents[2] / "docs" / "jax.md"


def table() -> str:
    """The table of the documentation, from what the tests above show."""
    rows = ["| JAX | DLPack code | bits | in memory on the CPU |", "|---|---:|---:|---|"]
    for name in [*NARROW, *WIDE]:
        dtype = graphffi.dtype(name)
        packed = f"{8 // dtype.bits} per byte, low bits first" if dtype.bits < 8 else "as it is"
        rows.append(f"| `{name}` | {dtype.code} | {dtype.bits} | {packed} |")
    return "\n".join(rows)


def test_the_documented_table_is_up_to_date() -> None:
    assert table() in TABLE.read_text(), f"put this into {TABLE}:\n{table()}"


def test_sub_byte_values_are_packed_in_memory() -> None:
    def low_nibbles(x: Any, out: Any) -> None:
        data = (ctypes.c_uint8 * 3).from_address(x.data_ptr)
        np.from_dlpack(out)[...] = list(data)

    graphffi.register_global_func("jaxtest.low_nibbles", low_nibbles, override=True)
    x = jnp.asarray([1, 2, 3, 4, 5], jnp.int4)
    y = graphffi.call_tvm_ffi("jaxtest.low_nibbles", x, out=graphffi.empty((3,), "float32"))
    *full, last = np.asarray(y).astype(int).tolist()
    assert full == [0x21, 0x43]
    assert last & 0xF == 5  # the rest of the last byte is anything


def test_fp4_as_elements_and_as_packed_bytes(ops: SimpleNamespace) -> None:
    # JAX's own convention: one element, one index. A byte of two elements is what other
    # frameworks hold; in JAX it is a uint8 array of half as many, or a bitcast of one.
    values = jnp.asarray([0.5, 1.0, -2.0, 6.0], jnp.float4_e2m1fn)
    described = np.asarray(ops.describe(values))
    assert described[:3].tolist() == [graphffi.dtype("float4_e2m1fn").code, 4, 1]
    assert described[6] == 4
    packed = jax.lax.bitcast_convert_type(values.reshape(2, 2), jnp.uint8)
    described = np.asarray(jax.jit(ops.describe)(packed))
    assert described[:3].tolist() == [1, 8, 1]
    assert described[6] == 2
    np.testing.assert_array_equal(packed, [0x21, 0x7C])

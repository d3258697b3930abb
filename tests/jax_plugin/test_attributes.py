# SPDX-License-Identifier: Apache-2.0
"""The custom call itself, with the attributes that a foreign program might give it."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

X = np.arange(4, dtype=np.float32)
TARGETS = graphffi_jax.inspect().targets


def text_of(*lines: str) -> str:
    return "\n".join(("tvm_ffi.call 2", *lines))


def call(*args: Any, results: Any = None, target: str = TARGETS[0], **attributes: Any) -> Any:
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype) if results is None else results
    args = args or (jnp.asarray(X),)
    return jax.jit(lambda *a: jax.ffi.ffi_call(target, shape)(*a, **attributes))(*args)


def test_nans_of_both_signs_arrive_as_they_are() -> None:
    def sign(x: Any, value: float, out: Any) -> None:
        np.from_dlpack(out)[...] = np.signbit(value)

    @graphffi.op("jaxattributes::sign", kernel=sign)
    def op(x: graphffi.Tensor, value: float) -> graphffi.Tensor:
        return graphffi.like(x)

    found = [jax.jit(lambda x, v=v: op(x, v))(X)[0] for v in (np.nan, -np.nan, np.nan)]
    assert found == [0, 1, 0]
    assert [op(jnp.asarray(X), v)[0] for v in (np.nan, -np.nan)] == [0, 1]


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_alone_is_enough(library: str, target: str) -> None:
    text = text_of(f"kernel {library}::add_one")
    np.testing.assert_array_equal(call(call=text, target=target), X + 1)


def test_all_lines(library: str) -> None:
    lines = [
        f"kernel {library}::axpy",
        "library ",
        "plan f1, i0, o0, i0",
        *("float 0.0", "float 2.0", "int 1", "int -2", "str a\\nb\\\\", "str "),
        "digest 0123",
        "subject mylib::axpy",
        "arrays x(a), y([b]) -> out(a)",
        "updated 0",
        "side_effect True",
    ]
    np.testing.assert_array_equal(call(call=text_of(*lines)), 3 * X)


@pytest.mark.parametrize(
    ("attributes", "got"),
    [
        ({}, "nothing"),
        ({"call": 1}, "other attributes"),
        ({"call": "tvm_ffi.call 2\nkernel f", "eps": 1.5}, "other attributes"),
        ({"func": "f", "plan": "i0, o0"}, "a program made by graphffi 0.1; export again"),
    ],
)
def test_a_program_without_the_text_is_refused(attributes: dict[str, Any], got: str) -> None:
    expected = "tvm_ffi.call: attribute 'call': expected the text of a call alone, got "
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(expected + got)):
        call(**attributes)


@pytest.mark.parametrize("text", ["", "tvm_ffi.call", "tvm_ffi.call 3\nkernel f", "kernel f"])
def test_a_text_of_another_format_is_refused(text: str) -> None:
    expected = (
        "tvm_ffi.call: the text of the call: expected the format 'tvm_ffi.call 2', got "
        f"'{text.partition(chr(10))[0]}'; export again"
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(expected)):
        call(call=text)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["subject f"], "f: the text of the call: kernel: expected the reference of a kernel, got"),
        (["kernel "], "tvm_ffi.call: the text of the call: kernel: expected the reference of a ke"),
        (["arrays x(@0) -> y(@0)"], "arrays: expected no loops, since XLA splits the call, got 'x"),
        (["eps 1.5"], "line: expected a known name, got 'eps 1.5'"),
        ([""], "line: expected a known name, got ''"),
        (["attribute n"], "attribute: expected a value, got 'n'"),
        (["digest a", "digest b"], "line: expected one digest, got 'b'"),
        (["int 1.5"], "int: expected a number of 64 bits, got '1.5'"),
        (["int "], "int: expected a number of 64 bits, got ''"),
        (["int 9223372036854775808"], "int: expected a number of 64 bits, got '9223372036854775"),
        (["float 1,5"], "float: expected a number of 64 bits, got '1,5'"),
        (["updated -1"], "updated: expected 0 or more, got '-1'"),
        (["updated x"], "updated: expected a number of 64 bits, got 'x'"),
        (["updated 2"], "updated: expected at most 1, got 2"),
        (["plan i0, z9"], "plan 'i0, z9': expected a known name, got 'z9'; known names: i0"),
        (["plan i0, ("], "plan 'i0, (': expected an item at"),
        (["plan i0, n0, o0"], "expected a known name, got 'n0'"),
        (["plan i7, o0"], "expected at least 8 inputs, got 1"),
        (["plan i0, o1"], "expected at least 2 outputs, got 1"),
        (["plan i99999999999999999999, o0"], "a known name, got 'i99999999999999999999'"),
        (["ordered True"], "ordered: expected a token as the first operand"),
        (["plan workspace"], "expected a workspace, got a call without one"),
        (["plan i0, bool(s0), o0", "str x"], "a bool() conversion needs an integer"),
        (["plan i0, dtype(s0), o0", "str x"], "x"),
    ],
)
def test_a_bad_line_is_an_error(library: str, lines: list[str], text: str) -> None:
    has_kernel = any(line.partition(" ")[0] in ("kernel", "subject") for line in lines)
    given = lines if has_kernel else [f"kernel {library}::add_one", *lines]
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(text)):
        call(call=text_of(*given))


@pytest.mark.parametrize(
    "value", [-0.0, 5e-324, 1.5e-310, 1.7976931348623157e308, 0.1, 1e22, float("inf"), float("nan")]
)
def test_floats_arrive_as_they_are(library: str, value: float) -> None:
    op = graphffi.define_op(
        "jaxattributes::float_bytes",
        schema="(Tensor x, float value) -> Tensor out",
        kernel=f"{library}::float_bytes",
        plan="value, out",
        infer=lambda x, value: graphffi.empty((8,), "uint8"),
        override=True,
    )
    found = np.asarray(jax.jit(lambda x: op(x, value))(X)).view(np.float64)
    np.testing.assert_array_equal(np.signbit(found), np.signbit([value]))
    np.testing.assert_array_equal(found, [value])


def test_unused_attributes_are_fine(library: str) -> None:
    # An attribute that only the shape rule reads is part of the call, not of the plan.
    y = call(call=text_of(f"kernel {library}::add_one", "plan i0, o0", "int 1"))
    np.testing.assert_array_equal(y, X + 1)


def test_owning_tensors_are_passed_where_asked(library: str) -> None:
    kernel = f"kernel {library}::takes_any_tensor"
    np.testing.assert_array_equal(call(call=text_of(kernel, "owning True")), X)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"TypeError: .*ffi\.Tensor"):
        call(call=text_of(kernel))


def test_no_operands_and_many(library: str) -> None:
    count = 40
    xs = [jnp.asarray(X + i) for i in range(count)]
    plan = "plan (" + ", ".join(f"i{i}" for i in range(count)) + "), o0"
    y = call(*xs, call=text_of(f"kernel {library}::sum_list", plan))
    np.testing.assert_allclose(y, sum(X + i for i in range(count)))


def test_identical_and_other_call_sites(library: str) -> None:
    def chain(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
        for i in range(50):
            text = text_of(f"kernel {library}::add_one", f"subject mylib::f{i % 3}")
            x = jax.ffi.ffi_call(TARGETS[0], shape)(x, call=text)
        return x

    np.testing.assert_array_equal(jax.jit(chain)(jnp.asarray(X)), X + 50)


def test_updates_need_the_memory_of_their_operand(library: str) -> None:
    lines = text_of(f"kernel {library}::increment", "updated 1")
    text = "updated: expected operand 0 in the memory of result 0, got a copy; pass inp"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        call(call=lines)
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    aliased = jax.ffi.ffi_call(TARGETS[0], shape, input_output_aliases={0: 0})
    y = jax.jit(lambda x: aliased(x, call=lines))(X)
    np.testing.assert_array_equal(y, X + 1)

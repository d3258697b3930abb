# SPDX-License-Identifier: Apache-2.0
"""Transformations and values that calls of kernels do not take: errors that name the op."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import jet, sparse

import graphffi
import graphffi_jax

X = jnp.arange(4, dtype=jnp.float32)


@pytest.mark.parametrize("mode", [lambda f: f, jax.jit])
def test_a_transposed_call_names_the_op(ops: SimpleNamespace, mode: Callable[..., Any]) -> None:
    text = (
        "jaxtest::add_one: linear_transpose: expected a function that JAX knows to be linear, got "
        "a call of a kernel; use jax.vjp for an op with a gradient rule; a rule of jax.custom_jvp "
        "may compute tangents with operations of JAX only"
    )
    with pytest.raises(NotImplementedError, match=re.escape(text)):
        jax.linear_transpose(mode(ops.add_one), X)(X)


def test_jax_refuses_calls_in_its_other_transformations(ops: SimpleNamespace) -> None:
    with pytest.raises(KeyError, match="tvm_ffi_call"):
        jet.jet(ops.add_one, (X,), ((X,),))
    with pytest.raises(NotImplementedError, match="sparse rule for tvm_ffi_call is not impl"):
        sparse.sparsify(ops.add_one)(sparse.BCOO.fromdense(jnp.eye(4)))


def test_calls_within_kernels_of_programs_on_the_cpu_are_refused(ops: SimpleNamespace) -> None:
    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = ops.add_one(jnp.array(np.from_dlpack(x)))

    text = (
        "jaxtest::add_one: expected a call outside of kernels that JAX programs on the CPU run, "
        "got one with arrays of JAX within such a kernel, which may wait forever; pass NumPy arrays"
    )
    with pytest.raises(RuntimeError, match=text), graphffi_jax.errors():
        jax.block_until_ready(jax.jit(lambda x: graphffi_jax.call(kernel, x, out=x))(X))
    np.testing.assert_array_equal(ops.add_one(X), X + 1)


class Param:
    """Like flax.nnx.Param."""

    def __jax_array__(self) -> Any:
        return X


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Param(), r"got Param .*; convert it with jax\.numpy\.asarray"),
        (
            np.zeros(3, jax.dtypes.float0),
            "expected numbers, got float0, JAX's tangents of integers; pass zeros of a floating-p",
        ),
    ],
)
def test_values_of_other_kinds_come_with_the_way_out(
    ops: SimpleNamespace, value: Any, text: str
) -> None:
    with pytest.raises(TypeError, match=f"jaxtest::add_one: operand 'x': .*{text}"):
        ops.add_one(value)
    for items in ([value], [X, value]):
        with pytest.raises(TypeError, match=f"jaxtest::sum_list: operand 'xs': .*{text}"):
            ops.sum_list(items)


@pytest.mark.skipif(not hasattr(jax, "new_ref"), reason="needs a newer jax")
def test_a_reference_is_to_be_read(ops: SimpleNamespace) -> None:
    ref = jax.new_ref(X)
    for f, got in ((ops.increment, "Ref"), (jax.jit(ops.increment), r"Ref\{float32\[.*\]\}")):
        text = rf"^jaxtest::increment: operand 'x': expected an array, got {got}; read it with ref"
        with pytest.raises(TypeError, match=text):
            f(ref)

    def update(ref: Any) -> None:
        ref[...] = ops.increment(ref[...])

    jax.jit(update)(ref)
    np.testing.assert_array_equal(ref[...], X + 1)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        jax.vmap,
        lambda f: lambda *xs: jax.jvp(lambda x: f(x, *xs[1:]), xs[:1], xs[:1]),
    ],
    ids=["eager", "vmap", "jvp"],
)
def test_an_array_that_was_donated_is_named(
    ops: SimpleNamespace, transform: Callable[..., Any]
) -> None:
    donated = X + 0
    jax.jit(ops.increment, donate_argnums=0)(donated)
    assert donated.is_deleted()
    op = graphffi.define_op(
        "refusals::subtract",
        schema="(Tensor x, Tensor y) -> Tensor",
        kernel="none",
        infer=lambda x, y: graphffi.like(x),
        vmap="broadcast",
    )
    text = "refusals::subtract: operand 'y': expected an array, got float32[4] that was deleted or"
    with pytest.raises(RuntimeError, match=re.escape(text)):
        transform(op)(X, donated)
    for items, name in (([X, donated], "operand 'xs'"), ([donated], "operand 'xs'")):
        with pytest.raises(RuntimeError, match=f"jaxtest::sum_list: {name}: .* donated; use what"):
            ops.sum_list(items)
    with pytest.raises(RuntimeError, match=r"refusals.raw: argument: .* deleted or donated"):
        graphffi.call_tvm_ffi("refusals.raw", donated, out=graphffi.like(X))


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="needs a newer jax")
def test_a_disallowed_transfer_is_named(ops: SimpleNamespace) -> None:
    text = "jaxtest::axpy: operand 'y': expected an array that JAX takes, got ndarray: .*isallowed"
    with jax.transfer_guard("disallow"), pytest.raises(Exception, match=text):
        ops.axpy(X, np.ones(4, np.float32))


def test_a_symbolic_size_is_no_attribute(ops: SimpleNamespace) -> None:
    export = pytest.importorskip("jax.export")
    shape = jax.ShapeDtypeStruct(export.symbolic_shape("2*n"), X.dtype)
    remedy = "got symbolic size 2*n; attributes are constants of a program: pass jax.numpy.asarray("
    text = re.escape(f"jaxtest::append: attribute 'position': expected an int, {remedy}")
    with pytest.raises(TypeError, match=text):
        jax.eval_shape(lambda x: ops.append(x, x[None], x.shape[0]), shape)
    text = r"f: argument #1: .*, got symbolic size 2\*n; convert it with jax\.numpy\.asarray"
    with pytest.raises(TypeError, match=text):
        jax.eval_shape(
            lambda x: graphffi.call_tvm_ffi("f", x, x.shape[0], out=graphffi.like(x)), shape
        )


def test_direct_calls_on_traced_arrays_say_what_to_write() -> None:
    text = "void add(tvm::ffi::TensorView x, double f, tvm::ffi::TensorView y) {}"
    module = graphffi.cpp.load_inline("traced_kernels", cpp_sources=text, functions=["add"])
    anonymous = graphffi.Function(module.add)
    expected = (
        r"^add: argument #{}: expected a tensor with elements, got a traced float32\[3\]; in "
        r"traced code, write graphffi_jax\.call\(add, \.\.\., out=jax\.ShapeDtypeStruct\("
        r"shape, dtype\)\) with the shape of each result"
    )
    x = jnp.ones(3)
    for position, call in (
        (0, lambda a: module.add(a, 2.0, a)),
        (2, lambda a: module.add(x, 2.0, a)),
        (0, lambda a: module.add([x, {"a": a}], 2.0)),
    ):
        for trace in (jax.jit, jax.make_jaxpr, lambda f: lambda a: jax.linearize(f, a)):
            with pytest.raises(TypeError, match=expected.format(position)):
                trace(call)(x)
    with pytest.raises(TypeError, match=r"write graphffi_jax\.call\("):
        jax.grad(lambda a: anonymous(a, 2.0, a))(x)

    def written(a: jax.Array) -> jax.Array:
        return graphffi_jax.call(module.add, a, 2.0, out=jax.ShapeDtypeStruct(a.shape, a.dtype))

    assert jax.jit(written)(x).shape == (3,)


def test_traced_arrays_have_no_dlpack_tensor() -> None:
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(graphffi.from_dlpack)(jnp.ones(3))

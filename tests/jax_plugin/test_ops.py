# SPDX-License-Identifier: Apache-2.0
"""Ops on JAX arrays, eagerly and under jit."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax
from graphffi_jax._primitive import _program


def as_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


both_ways = pytest.mark.parametrize("way", [as_is, jax.jit], ids=["eager", "jit"])
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@both_ways
def test_an_op_gives_a_jax_array(ops: SimpleNamespace, way: Any) -> None:
    y = way(ops.add_one)(jnp.asarray(X))
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(y, X + 1)


@both_ways
def test_a_plan_reorders_and_attributes_have_defaults(ops: SimpleNamespace, way: Any) -> None:
    x, y = jnp.asarray(X), jnp.asarray(2 * X)
    np.testing.assert_array_equal(way(ops.axpy)(x, y), X + 2 * X)
    np.testing.assert_allclose(way(lambda x, y: ops.axpy(x, y, a=0.5))(x, y), 0.5 * X + 2 * X)
    np.testing.assert_allclose(way(lambda x, y: ops.axpy(y=y, x=x, a=3))(x, y), 3 * X + 2 * X)


@both_ways
def test_several_results(ops: SimpleNamespace, way: Any) -> None:
    low, high = way(ops.min_max)(jnp.asarray(X))
    assert (low.shape, float(low), float(high)) == ((), 0, 5)


@both_ways
def test_a_list_of_arrays(ops: SimpleNamespace, way: Any) -> None:
    for count in (1, 2, 20):
        xs = [jnp.asarray(X + i) for i in range(count)]
        expected = sum(X + i for i in range(count))
        np.testing.assert_allclose(way(lambda *xs: ops.sum_list(list(xs)))(*xs), expected)


@pytest.mark.parametrize(("count", "ndim"), [(12, 7), (40, 0), (15, 1), (40, 5)])
def test_many_arrays_of_many_dimensions(ops: SimpleNamespace, count: int, ndim: int) -> None:
    x = np.arange(2**ndim, dtype=np.float32).reshape((2,) * ndim)
    y = jax.jit(lambda x: ops.sum_list([x + i for i in range(count)]))(x)
    np.testing.assert_allclose(y, sum(x + i for i in range(count)))


@both_ways
def test_an_optional_operand(ops: SimpleNamespace, way: Any) -> None:
    x, mask = jnp.asarray(X), jnp.asarray(X > 2)
    np.testing.assert_array_equal(way(ops.masked)(x), X)
    np.testing.assert_array_equal(way(lambda x: ops.masked(x, None))(x), X)
    np.testing.assert_array_equal(
        way(lambda x, mask: ops.masked(x, mask=mask))(x, mask), X * (X > 2)
    )


@both_ways
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3, 4, 5, 6, 7)])
def test_shapes(ops: SimpleNamespace, way: Any, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    y = way(ops.add_one)(jnp.asarray(x))
    assert y.shape == shape
    np.testing.assert_array_equal(y, x + 1)


@both_ways
def test_a_transposed_operand_arrives_row_major(ops: SimpleNamespace, way: Any) -> None:
    y = way(lambda x: ops.add_one(x.T))(jnp.asarray(X))
    np.testing.assert_array_equal(y, X.T + 1)
    described = np.asarray(way(lambda x: ops.describe(x.T))(jnp.asarray(X)))
    assert described[4:10].tolist() == [2, 1, 3, 2, 2, 1]


def test_arrays_that_jax_cannot_take_are_refused_by_name(ops: SimpleNamespace) -> None:
    for array, kind, text in (
        (
            np.ones((2, 3), ">f4"),
            TypeError,
            r"a data type that kernels can take, got float32 in another byte order; pass \.astype",
        ),
        (
            np.ones((2, 3), np.longdouble),
            TypeError,
            "an array that JAX takes, got ndarray: .*float128",
        ),
        (np.ma.masked_array(X), TypeError, "a tensor, got MaskedArray; pass x.filled"),
        (np.array([None]), TypeError, "dtype: expected a name such as float32, .*, got 'object'"),
        (np.array(["a"]), TypeError, "dtype: expected a name such as float32, .*, got 'str32'"),
    ):
        for call in (ops.axpy, jax.jit(lambda x, array=array: ops.axpy(x, array))):
            with pytest.raises(kind, match=f"jaxtest::axpy: operand 'y': .*{text}"):
                call(*(jnp.asarray(X), array)[: 2 if call is ops.axpy else 1])


def test_numpy_arrays_may_be_mixed_in(ops: SimpleNamespace) -> None:
    x = jnp.asarray(X)
    for a, b in ((x, X), (X, x), (x, np.ascontiguousarray(X.T).T)):
        y = ops.axpy(a, b)
        assert isinstance(y, jax.Array)
        np.testing.assert_array_equal(y, 2 * X)
    np.testing.assert_array_equal(jax.jit(lambda x: ops.axpy(x, X))(x), 2 * X)


def test_graphffi_tensors_may_be_mixed_in(ops: SimpleNamespace) -> None:
    tensor = graphffi.from_dlpack(np.array(X))
    np.testing.assert_array_equal(ops.axpy(jnp.asarray(X), tensor), 2 * X)


@pytest.mark.parametrize("value", [1, 1.0, True, "text", [1.0, 2.0]])
def test_a_python_value_is_no_operand(ops: SimpleNamespace, value: Any) -> None:
    with pytest.raises(TypeError, match=r"jaxtest::axpy: operand 'y': expected a tensor, got"):
        ops.axpy(jnp.asarray(X), value)
    with pytest.raises(TypeError, match=r"jaxtest::axpy: operand 'y': expected a tensor, got"):
        jax.jit(lambda x: ops.axpy(x, value))(jnp.asarray(X))


@both_ways
def test_attributes_of_every_kind(ops: SimpleNamespace, way: Any) -> None:
    def call(x: Any) -> Any:
        return ops.attributes(
            x, 7, 2.5, True, "text", jnp.bfloat16, "cuda:3", [1, 2, 3], maybe=np.int32(9)
        )

    expected = [7, 2.5, 1, 4, 4016, 2003, 123, 9]
    np.testing.assert_array_equal(way(call)(jnp.asarray(X)), expected)
    bare = way(lambda x: ops.attributes(x, -1, 0.0, False, "", "bool", "cpu", []))(jnp.asarray(X))
    np.testing.assert_array_equal(bare, [-1, 0, 0, 0, 6008, 1000, 0, -1])


@both_ways
@pytest.mark.parametrize(
    "text",
    ["", "1234567", "12345678", "x" * 4096, "a\0b", "\0" * 9, "Grüße, 世界", "1:2,\"'\\\n{}"],
)
def test_strings_arrive_byte_for_byte(ops: SimpleNamespace, way: Any, text: str) -> None:
    out = np.asarray(way(lambda x: ops.echo(x, text))(jnp.asarray(X)))
    content = text.encode()
    assert out[: len(content)].tobytes() == content
    assert not out[len(content) :].any()


def test_equal_floats_of_other_bits_are_not_mixed_up(ops: SimpleNamespace) -> None:
    x = jnp.full((1,), 1.0)
    zero = jnp.full((1,), -0.0)
    assert not np.signbit(ops.axpy(x, zero, a=0.0)[0])
    assert np.signbit(ops.axpy(x, zero, a=-0.0)[0])
    assert np.isnan(ops.axpy(x, zero, a=float("nan"))[0])


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "operand 'x': expected a tensor, got nothing"),
        (("x", "x"), {"b": 1}, "argument 'b': expected a known name"),
        (("x", "x"), {"a": "1"}, "attribute 'a': expected a float, got str '1'"),
        (("x", "x", 1.0, 2.0), {}, "expected at most 3 arguments, got 4"),
        (("x", "x"), {"x": "x"}, "argument 'x': expected one value, got two"),
    ],
)
def test_wrong_arguments_are_told_as_elsewhere(
    ops: SimpleNamespace, args: Any, kwargs: Any, text: str
) -> None:
    for make in (jnp.asarray, np.asarray):
        x = make(X)

        def call(x: Any) -> Any:
            positional = [x if a == "x" else a for a in args]
            keywords = {k: x if v == "x" else v for k, v in kwargs.items()}
            return ops.axpy(*positional, **keywords)

        with pytest.raises(TypeError, match=f"jaxtest::axpy: .*{text}"):
            call(x)
        with pytest.raises(TypeError, match=f"jaxtest::axpy: .*{text}"):
            jax.jit(call)(x)


def test_a_traced_attribute_is_refused(ops: SimpleNamespace) -> None:
    with pytest.raises(
        TypeError,
        match=r"jaxtest::axpy: attribute 'a': expected a float, got .*plain Python values",
    ):
        jax.jit(ops.axpy)(jnp.asarray(X), jnp.asarray(X), 2.0)
    static = jax.jit(ops.axpy, static_argnums=2)
    np.testing.assert_array_equal(static(jnp.asarray(X), jnp.asarray(X), 2.0), 3 * X)


def test_an_int_attribute_of_more_than_64_bits_is_refused(ops: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"append: attribute 'position': expected an int of 64"):
        ops.append(jnp.zeros(3), jnp.zeros((2, 3)), 2**63)


def test_results_that_no_memory_holds_are_refused(ops: SimpleNamespace) -> None:
    op = graphffi.define_op(
        "jaxtest::huge",
        schema="(Tensor x, int size) -> Tensor",
        kernel=ops.add_one.definition.kernels[0].reference,
        plan="x, out",
        infer=lambda x, size: graphffi.like(x, shape=(size, size)),
    )
    for call in (op, jax.jit(op, static_argnums=1)):
        with pytest.raises(
            ValueError, match=r"huge: shape rule: result 'out': expected fewer than .*, got"
        ):
            call(jnp.asarray(X), 2**62)


def test_a_string_that_is_no_unicode_is_refused(ops: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"jaxtest::echo: attribute 'text': expected Unicode"):
        ops.echo(jnp.asarray(X), "\ud800")


def test_a_failed_check_of_the_rule_names_the_op() -> None:
    def rule(x: Any) -> Any:
        graphffi.check(x.ndim == 2, f"operand 'x': expected 2 dimensions, got {x.ndim}")
        return graphffi.like(x)

    checked = graphffi.define_op(
        "jaxtest::checked", schema="(Tensor x) -> Tensor", kernel="nowhere", infer=rule
    )
    for way in (as_is, jax.jit):
        with pytest.raises(ValueError, match=r"jaxtest::checked: operand 'x': expected 2 dimen"):
            way(checked)(jnp.zeros(3))


def test_jax_has_a_name_for_operands(library: str) -> None:
    def rule(x: jax.Array, xs: list[jax.Array], mask: jax.Array | None = None) -> jax.Array:
        return graphffi.like(x)

    op = graphffi.op("jaxtest::named_arrays", kernel=f"{library}::add_one", plan="x, out")(rule)
    assert [o.kind for o in op.definition.operands] == ["tensor", "list", "optional"]


def test_a_key_array_is_no_operand(ops: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match=r"jaxtest::add_one: operand 'x': expected an array of num"):
        ops.add_one(jax.random.key(0))
    with pytest.raises(TypeError, match=r"^graphffi_jax.call: out: dtype: expected a name such as"):
        graphffi_jax.call("jaxtest.none", X, out=jax.random.key(0))


def test_a_shape_struct_is_no_operand(ops: SimpleNamespace) -> None:
    struct = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    with pytest.raises(TypeError, match=r"jaxtest::add_one: operand 'x': expected an array, got"):
        ops.add_one(struct)
    assert jax.eval_shape(ops.add_one, struct) == struct


def test_the_compiled_program_calls_the_one_target(ops: SimpleNamespace) -> None:
    text = jax.jit(lambda x: ops.axpy(x, x, a=2.0)).lower(jnp.asarray(X)).as_text()
    assert text.count("@tvm_ffi.call(") == 1
    assert r"\0Asubject jaxtest::axpy\0A" in text
    assert r"\0Aplan f0, i0, o0, i1\0A" in text
    assert rf"\0Adigest {ops.axpy.definition.digest}\0Afloat 2.0" in text


def test_call_tvm_ffi(library: str) -> None:
    x = jnp.asarray(X)
    func = f"{library}::axpy"

    def call(x: Any) -> Any:
        return graphffi.call_tvm_ffi(f"{library}::add_one", x, out=graphffi.like(x))

    for way in (as_is, jax.jit):
        np.testing.assert_array_equal(way(call)(x), X + 1)
    low, high = graphffi.call_tvm_ffi(
        f"{library}::min_max", x, out=[graphffi.empty((), "float32"), graphffi.empty((), "float32")]
    )
    assert (float(low), float(high)) == (0, 5)
    updated = graphffi.call_tvm_ffi(f"{library}::increment", x, mutates=[0])
    np.testing.assert_array_equal(updated, X + 1)
    np.testing.assert_array_equal(x, X)
    with pytest.raises(TypeError, match="argument #0: expected a tensor"):
        graphffi.call_tvm_ffi(func, object(), out=graphffi.like(x))


def test_a_kernel_that_python_registered(ops: SimpleNamespace) -> None:
    def double(x: Any, factor: float, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * factor

    graphffi.register_global_func("jaxtest.double", double, override=True)
    x = jnp.asarray(X)

    def call(x: Any) -> Any:
        return graphffi.call_tvm_ffi("jaxtest.double", x, 2.0, out=graphffi.like(x))

    for way in (as_is, jax.jit):
        np.testing.assert_array_equal(way(call)(x), 2 * X)


def test_a_function_that_is_registered_anew_is_found() -> None:
    def make(value: float) -> Any:
        return lambda x, out: np.from_dlpack(out).fill(value)

    x = jnp.asarray(X)
    for value in (1.0, 2.0):
        graphffi.register_global_func("jaxtest.fill", make(value), override=True)
        y = jax.jit(lambda x: graphffi.call_tvm_ffi("jaxtest.fill", x, out=graphffi.like(x)))(x)
        np.testing.assert_array_equal(y, np.full_like(X, value))


def test_operands_of_two_frameworks_are_refused(ops: SimpleNamespace) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("graphffi_torch", exc_type=ImportError)
    with pytest.raises(TypeError, match="expected tensors of one framework, got"):
        ops.axpy(jnp.asarray(X), torch.zeros(2, 3))


def test_a_function_that_is_registered_anew_is_called_everywhere() -> None:
    def add(number: int) -> Any:
        def kernel(x: Any, out: Any) -> None:
            np.from_dlpack(out)[...] = np.from_dlpack(x) + number

        return kernel

    graphffi.register_global_func("jaxtest.replaced", add(1), override=True)
    op = graphffi.define_op(
        "jaxtest::replaced",
        schema="(Tensor x) -> Tensor",
        kernel="jaxtest.replaced",
        infer=graphffi.like,
    )
    x = np.arange(3, dtype="float32")
    compiled = jax.jit(op)
    calls = [op, compiled, lambda y: op(jnp.asarray(y)), jax.jit(op).lower(x).compile()]
    for number in (1, 2, 3):
        graphffi.register_global_func("jaxtest.replaced", add(number), override=True)
        for call in calls:
            np.testing.assert_array_equal(call(x), x + number)


def test_functions_of_libraries_get_no_handle(library: str) -> None:
    x = jnp.ones(1, jnp.float32)
    y = jax.jit(lambda x: graphffi_jax.call(f"{library}::without_handle", x, out=x))(x)
    assert y.tolist() == [1]


def test_equal_eager_calls_share_a_program(library: str) -> None:
    x = jnp.asarray(X)

    def defined() -> Any:
        return graphffi.define_op(
            "jaxtest::defined_again",
            schema="(Tensor x) -> Tensor",
            kernel=f"{library}::add_one",
            infer=graphffi.like,
            override=True,
        )

    for call in (lambda: graphffi_jax.call(f"{library}::add_one", x, out=x), lambda: defined()(x)):
        call()
        before = _program.cache_info().misses
        call()
        assert _program.cache_info().misses == before

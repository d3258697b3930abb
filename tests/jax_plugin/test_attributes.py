# SPDX-License-Identifier: Apache-2.0
"""The custom call itself, with the attributes that a foreign program might give it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi_jax

X = np.arange(4, dtype=np.float32)
TARGETS = graphffi_jax.inspect().targets


def call(*args: Any, results: Any = None, target: str = TARGETS[0], **attributes: Any) -> Any:
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype) if results is None else results
    args = args or (jnp.asarray(X),)
    return jax.jit(lambda *a: jax.ffi.ffi_call(target, shape)(*a, **attributes))(*args)


@pytest.mark.parametrize("target", TARGETS)
def test_func_alone_is_enough(library: str, target: str) -> None:
    np.testing.assert_array_equal(call(func=f"{library}::add_one", target=target), X + 1)


def test_all_attributes(library: str) -> None:
    y = call(
        func=f"{library}::axpy",
        plan="f1, i0, o0, i0",
        floats=np.array([0.0, 2.0]),
        ints=np.array([1, 2]),
        strs="3:abc0:",
        digest="0123",
        subject="mylib::axpy",
        mutated=np.int64(0),
        pass_owning_tensor=False,
    )
    np.testing.assert_array_equal(y, 3 * X)


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        (
            {"func": None},
            "tvm_ffi.call: attribute 'func': expected the reference of a kernel, got nothing",
        ),
        ({"func": ""}, "attribute 'func': expected the reference of a kernel, got nothing"),
        (
            {"dims": "x(@0) -> y(@0)"},
            "attribute 'dims': expected a string without loops, since XLA splits the call, got a s",
        ),
        ({"func": 1}, "attribute 'func': expected a string, got a scalar of int"),
        ({"eps": 1.5}, "attribute 'eps': expected a known attribute .*, got a scalar of float"),
        (
            {"ints": np.array([1.5])},
            "attribute 'ints': expected an array of int64, got an array of fl",
        ),
        (
            {"ints": np.array([1], np.int32)},
            "'ints': expected an array of int64, got an array of int32",
        ),
        (
            {"ints": np.int64(1)},
            "attribute 'ints': expected an array of int64, got a scalar of int64",
        ),
        ({"ints": "1"}, "attribute 'ints': expected an array of int64, got a string"),
        ({"ints": {"a": 1}}, "attribute 'ints': expected an array of int64, got a dictionary"),
        (
            {"floats": np.array([1], np.float32)},
            "'floats': expected an array of float64, got an array of",
        ),
        ({"plan": np.array([1])}, "attribute 'plan': expected a string, got an array of int64"),
        (
            {"strs": "3:ab"},
            "attribute 'strs': expected parts of the form '<length>:<bytes>', got '3:ab'",
        ),
        ({"strs": "x"}, "attribute 'strs': expected parts of the form"),
        ({"strs": "99999999999999999999:x"}, "attribute 'strs': expected parts of the form"),
        ({"strs": "-1:x"}, "attribute 'strs': expected parts of the form"),
        ({"mutated": np.int64(-1)}, "attribute 'mutated': expected 0 or more, got -1"),
        ({"mutated": "1"}, "attribute 'mutated': expected a scalar of int64, got a string"),
        ({"mutated": np.int64(2)}, "attribute 'mutated': expected at most 1, got 2"),
        (
            {"pass_owning_tensor": 1},
            "'pass_owning_tensor': expected a scalar of bool, got a scalar of int",
        ),
        ({"plan": "i0, z9"}, "plan 'i0, z9': expected a known name, got 'z9'; known names: i0"),
        ({"plan": "i0, ("}, "plan 'i0, \\(': expected an item at"),
        ({"plan": "i0, n0, o0"}, "expected a known name, got 'n0'"),
        ({"plan": "i7, o0"}, "expected at least 8 inputs, got 1"),
        ({"plan": "i0, o1"}, "expected at least 2 outputs, got 1"),
        (
            {"plan": "i99999999999999999999, o0"},
            "expected a known name, got 'i99999999999999999999'",
        ),
        ({"ordered": True}, "attribute 'ordered': expected a token as the first operand"),
        ({"ordered": 1}, "attribute 'ordered': expected a scalar of bool, got a scalar of int"),
        ({"plan": "workspace"}, "expected a workspace, got a call without one"),
        ({"plan": "i0, bool(s0), o0", "strs": "1:x"}, "a bool\\(\\) conversion needs an integer"),
        ({"plan": "i0, dtype(s0), o0", "strs": "1:x"}, "got|x"),
    ],
)
def test_a_bad_attribute_is_an_error(library: str, attributes: dict[str, Any], text: str) -> None:
    given = {"func": f"{library}::add_one", **attributes}
    given = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        call(**given)


def test_all_bad_attributes_are_told_at_once(library: str) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        call(func=f"{library}::add_one", subject="mylib::f", a=1, ints="1", plan=2)
    text = str(caught.value)
    assert text.startswith("INVALID_ARGUMENT: TypeError: mylib::f: attribute 'a': expected a known")
    assert "; attribute 'ints': expected" in text
    assert "; attribute 'plan': expected" in text


def test_known_attributes_are_listed(library: str) -> None:
    known = "digest, dims, floats, func, has_side_effect, ints, library, mutated, names, ordered, "
    with pytest.raises(jax.errors.JaxRuntimeError, match=known):
        call(func=f"{library}::add_one", Func="x")


def test_unused_attributes_are_fine(library: str) -> None:
    # An attribute that only the shape rule reads is part of the call, not of the plan.
    y = call(func=f"{library}::add_one", plan="i0, o0", ints=np.array([1]))
    np.testing.assert_array_equal(y, X + 1)


def test_owning_tensors_are_passed_where_asked(library: str) -> None:
    func = f"{library}::takes_any_tensor"
    np.testing.assert_array_equal(call(func=func, pass_owning_tensor=True), X)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"TypeError: .*ffi\.Tensor"):
        call(func=func)


def test_no_operands_and_many(library: str) -> None:
    count = 40
    xs = [jnp.asarray(X + i) for i in range(count)]
    plan = "(" + ", ".join(f"i{i}" for i in range(count)) + "), o0"
    y = call(*xs, func=f"{library}::sum_list", plan=plan)
    np.testing.assert_allclose(y, sum(X + i for i in range(count)))


def test_identical_and_other_call_sites(library: str) -> None:
    def chain(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
        for i in range(50):
            subject = f"mylib::f{i % 3}"
            x = jax.ffi.ffi_call(TARGETS[0], shape)(x, func=f"{library}::add_one", subject=subject)
        return x

    np.testing.assert_array_equal(jax.jit(chain)(jnp.asarray(X)), X + 50)


def test_updates_need_the_memory_of_their_operand(library: str) -> None:
    text = "attribute 'mutated': expected operand 0 in the memory of result 0, got a copy; pass inp"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        call(func=f"{library}::increment", mutated=np.int64(1))
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    aliased = jax.ffi.ffi_call(TARGETS[0], shape, input_output_aliases={0: 0})
    y = jax.jit(lambda x: aliased(x, func=f"{library}::increment", mutated=np.int64(1)))(X)
    np.testing.assert_array_equal(y, X + 1)

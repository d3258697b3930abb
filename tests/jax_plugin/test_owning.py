# SPDX-License-Identifier: Apache-2.0
"""Kernels that take owning tensors, keep them, or return what they computed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)


def define(library: str, name: str, plan: str = "", **traits: bool) -> graphffi.Op:
    kernel, suffix = f"{library}::{name}", "_owning" if traits else ""
    return graphffi.define_op(
        f"jaxowning::{name}{suffix}",
        schema="(Tensor x) -> Tensor",
        kernel=kernel,
        plan=plan,
        infer=graphffi.like,
        **traits,
    )


def test_a_kernel_whose_metadata_asks_for_tensors_gets_them(ops: SimpleNamespace) -> None:
    np.testing.assert_array_equal(ops.takes_owning(X), X)
    np.testing.assert_array_equal(jax.jit(ops.takes_owning)(X), X)


def test_an_op_may_ask_for_owning_tensors(library: str) -> None:
    views = define(library, "takes_any_tensor")
    text = r"TypeError: jaxowning::takes_any_tensor: Cannot convert from type `DLTensor\*` to "
    text += r"`ffi\.Tensor`; pass pass_owning_tensor=True for such a kernel"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        jax.block_until_ready(views(X))
    owning = define(library, "takes_any_tensor", pass_owning_tensor=True)
    for x in (X, np.asarray(X)):
        np.testing.assert_array_equal(owning(x), X)


def test_errors_of_kernels_that_want_owning_tensors_name_the_trait() -> None:
    text = "void keep(tvm::ffi::Tensor x, tvm::ffi::Optional<tvm::ffi::Tensor> y) {}"
    text += "\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(keep, keep);"
    flags = ["-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=0"]
    library = graphffi.cpp.build("owning_kernels", cpp_sources=text, extra_cflags=flags)
    for plan, expected in (("x, None", "ffi.Tensor"), ("x, x", "ffi.Tensor"), ("1, x", "int")):
        name = f"jaxowning::keep_{plan[0]}_{plan[3]}"
        op = graphffi.define_op(
            name,
            schema="(Tensor(a!) x) -> ()",
            kernel=f"{library}::keep",
            plan=plan,
            override=True,
        )
        with pytest.raises(TypeError) as raised, graphffi_jax.errors():
            jax.block_until_ready(op(X))
        assert str(raised.value).startswith(f"{name}: Mismatched type on argument #0 when calling")
        is_owning = expected == "ffi.Tensor"
        assert str(raised.value).endswith("such a kernel") is is_owning


def test_a_call_may_ask_for_owning_tensors(library: str) -> None:
    func = f"{library}::takes_any_tensor"
    y = graphffi.call_tvm_ffi(func, X, out=graphffi.like(X), pass_owning_tensor=True)
    np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize("name", ["keeps_owning", "keeps_in_array"])
def test_keeping_a_tensor_is_an_error(library: str, name: str) -> None:
    plan = "(x,), out" if name == "keeps_in_array" else ""
    op = define(library, name, plan)
    text = rf"RuntimeError: jaxowning::{name}: .*retained or returned a tensor that is only lent"
    for call in (op, jax.jit(op)):
        for _ in range(2):
            with pytest.raises(jax.errors.JaxRuntimeError, match=text):
                jax.block_until_ready(call(X))


@pytest.mark.parametrize("shape", [(2, 3), (), (1,) * 9])
def test_a_kept_tensor_has_no_elements_any_more(library: str, shape: tuple[int, ...]) -> None:
    def call(name: str) -> Any:
        out = graphffi.empty((1,), "float32")
        return graphffi.call_tvm_ffi(f"{library}::{name}", jnp.ones(shape), out=out)

    with pytest.raises(jax.errors.JaxRuntimeError, match="retained or returned a tensor"):
        jax.block_until_ready(call("keeps_owning"))
    assert call("sum_of_kept")[0] == 0  # and no access to memory that XLA took back


@pytest.mark.parametrize(("name", "factor"), [("doubled", 2), ("identity", 1)])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)])
def test_a_returned_tensor_becomes_the_result(
    library: str, name: str, factor: int, shape: tuple[int, ...]
) -> None:
    op = define(library, name, "x")
    x = jnp.ones(shape)
    for call, operand in ((op, x), (jax.jit(op), x), (op, np.asarray(x))):
        np.testing.assert_array_equal(call(operand), factor * np.ones(shape))


def test_returned_tensors_become_the_results(library: str) -> None:
    def rule(x: Any) -> Any:
        half = graphffi.empty((x.numel // 2,), x.dtype)
        return half, half

    op = graphffi.define_op(
        "jaxowning::split",
        schema="(Tensor x) -> (Tensor a, Tensor b)",
        kernel=f"{library}::split",
        plan="x",
        infer=rule,
    )
    for call, x in ((op, X), (jax.jit(op), X), (op, np.asarray(X))):
        a, b = call(x)
        np.testing.assert_array_equal(a, [0, 1, 2])
        np.testing.assert_array_equal(b, [3, 4, 5])


@pytest.mark.parametrize(
    ("name", "spec", "kind", "text"),
    [
        (
            "doubled",
            ((3, 2), "float32"),
            "ValueError",
            r"result 0: expected float32\[3, 2\] on cpu, "
            r"got float32\[2, 3\] on cpu",
        ),
        (
            "doubled",
            ((2, 3), "int32"),
            "TypeError",
            r"result 0: expected int32\[2, 3\] on cpu, got float32",
        ),
        (
            "returns_int",
            ((2, 3), "float32"),
            "TypeError",
            r"result 0: expected float32\[2, 3\] on cpu"
            r", got no tensor; the plan does not pass",
        ),
        ("split", ((2, 3), "float32"), "TypeError", r"results: expected 1 returned tensors, got 2"),
    ],
)
def test_what_is_returned_must_be_the_result(
    library: str, name: str, spec: Any, kind: str, text: str
) -> None:
    op = graphffi.define_op(
        f"jaxowning::{name}_{len(spec[0])}{spec[0][0]}{spec[1]}",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::{name}",
        plan="x",
        infer=lambda x: graphffi.empty(*spec),
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"{kind}: {op.name}: {text}"):
        jax.block_until_ready(op(X))
    with pytest.raises({"ValueError": ValueError, "TypeError": TypeError}[kind], match=text):
        op(np.asarray(X))


def test_a_returned_tensor_beside_results_to_fill_is_an_error(library: str) -> None:
    graphffi.register_global_func(
        "jaxowning.returns", lambda x, out: graphffi.from_dlpack(np.zeros(4)), override=True
    )
    text = r"TypeError: jaxowning.returns: result: expected None, got returned tensors"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        graphffi.call_tvm_ffi("jaxowning.returns", X, out=graphffi.like(X))


def test_a_python_kernel_may_give_its_result_back() -> None:
    def double(x: Any, out: Any) -> Any:
        np.from_dlpack(out)[...] = 2 * np.from_dlpack(x)
        return out

    graphffi.register_global_func("jaxowning.double", double, override=True)
    y = graphffi.call_tvm_ffi("jaxowning.double", X, out=graphffi.like(X))
    np.testing.assert_array_equal(y, 2 * X)


def test_a_python_kernel_may_give_the_operand_back_that_it_updates() -> None:
    def double(x: Any) -> Any:
        np.from_dlpack(x)[...] *= 2
        return x

    op = graphffi.define_op("jaxowning::double", schema="(Tensor(a!) x) -> ()", kernel=double)
    np.testing.assert_array_equal(jax.jit(op)(X), 2 * np.asarray(X))


def test_a_python_kernel_may_not_keep_its_tensors() -> None:
    kept: list[Any] = []
    graphffi.register_global_func("jaxowning.keep", lambda x, out: kept.append(x), override=True)
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="retained or returned a tensor"):
            jax.block_until_ready(graphffi.call_tvm_ffi("jaxowning.keep", X, out=graphffi.like(X)))

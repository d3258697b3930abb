# SPDX-License-Identifier: Apache-2.0
"""Kernels whose parameters state their tensors, and ops of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi import Tensor

SOURCE = """
#include <graphffi/op.h>
#include <graphffi/view.h>

#include <complex>

using graphffi::OneOf;
using graphffi::View;

void AddOne(View<const float> x, View<float> out) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] + 1.0f;
}
void AddOneWide(View<const double> x, View<double> out) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] + 1.0;
}
void Transpose(View<const OneOf<float, double>, 2> x, View<OneOf<float, double>, 2> out) {
  x.visit([&](auto from) {
    auto to = out.as<std::remove_const_t<typename decltype(from)::Element>>();
    for (int64_t i = 0; i < from.size(0); ++i) {
      for (int64_t k = 0; k < from.size(-1); ++k) to[k][i] = from[i][k];
    }
  });
}
void Accumulate(View<float, 1> total, View<const float, 1> x) {
  for (int64_t i = 0; i < x.size(0); ++i) total[i] += x[i];
}
double SumOf(View<const double, 3> x) {
  double sum = 0;
  for (int64_t i = 0; i < x.size(0); ++i) sum += x[i][1][0];
  return sum;
}
double Scalar(View<const double, 0> x) { return x[0]; }
int64_t Count(tvm::ffi::Optional<View<const void>> x) {
  return x.has_value() ? x.value().end() != nullptr ? x.value().numel() : -2 : -1;
}
void OnGpu(View<float, 1, kDLCUDA>) {}
void Kinds(View<const bool>, View<const uint8_t>, View<const std::complex<float>>,
           View<const _Float16>) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one_wide, AddOneWide);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(transpose, Transpose);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(accumulate, Accumulate);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum_of, SumOf);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scalar, Scalar);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count, Count);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(on_gpu, OnGpu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kinds, Kinds);
GRAPHFFI_EXPORT_OP(described, Transpose, "(Tensor x) -> Tensor", "dims: [n] [m] -> [m] [n]");
"""
TYPES = ["float32", "float64", "float16", "int32"]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = tmp_path_factory.mktemp("views") / "views.cc"
    source.write_text(SOURCE)
    return graphffi.load_module(graphffi.cpp.build("views_of_tests", sources=[source]))


def define(name: str, kernel: Any, **options: Any) -> Any:
    def rule(x: Tensor) -> Tensor:
        return graphffi.like(x)

    return graphffi.op(f"views::{name}", kernel=kernel, **options)(rule)


def error_of(call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(TypeError) as caught:
        call(*args)
    return str(caught.value)


def test_elements_are_those_of_the_tensor(kernels: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)
    for kind in ("float32", "float64"):
        out = np.empty((3, 2), kind)
        kernels.transpose(x.astype(kind), out)
        assert out.tolist() == x.T.tolist()
    assert kernels.sum_of(np.arange(12.0).reshape(2, 3, 2)) == 2 + 8
    assert kernels.sum_of(np.zeros((0, 3, 2))) == 0
    assert kernels.scalar(np.array(7.0)) == 7
    assert [kernels.count(v) for v in (x, np.int8([1]), None)] == [6, 1, -1]
    with_offset = np.arange(4, dtype="float32")[2:]
    out = np.empty_like(with_offset)
    kernels.add_one(with_offset, out)
    assert out.tolist() == [3, 4]
    kinds = ("bool", "uint8", "complex64", "float16")
    kernels.kinds(*(np.ones(1, kind) for kind in kinds))
    assert all(kind in kernels.kinds.metadata for kind in kinds)


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("add_one", [np.ones(2), np.ones(2, "f")], "`View<const float32>` but got `float64[2]`"),
        ("add_one", [np.ones(2, "F"), np.ones(2, "F")], "but got `complex64[2]`"),
        ("add_one", [np.ones(2, "f"), np.ones(2)], "argument #1 "),
        ("add_one", [np.ones((2, 2), "f").T, np.ones((2, 2), "f")], "[2, 2] with strides [1, 2]"),
        ("sum_of", [np.ones(2)], "`View<const float64, 3>` but got `float64[2]`"),
        ("scalar", [np.ones(1)], "`View<const float64, 0>` but got `float64[1]`"),
        ("transpose", [np.ones((1, 1), "e")] * 2, "float32 | float64, 2>` but got `float16[1, 1]`"),
        ("transpose", [np.ones((1, 1)), np.ones((1, 1), "f")], "expected elements of type float64"),
        ("on_gpu", [np.ones(1, "f")], "`View<float32, 1 on cuda>` but got `float32[1]`"),
        ("add_one", [3, np.ones(1, "f")], "but got `int`"),
        ("add_one", [None, np.ones(1, "f")], "but got `None`"),
    ],
)
def test_other_tensors_are_refused(kernels: Any, name: str, args: list[Any], text: str) -> None:
    assert text in error_of(kernels.get_function(name), *args)


def test_size_one_and_empty_tensors_are_row_major(kernels: Any) -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    for view in (x[:, 1:2][:1].T, x[:0].T, x.T[:, :0]):
        kernels.add_one(view, np.empty(view.shape, "float32"))


@pytest.mark.parametrize("kind", TYPES)
def test_ops_take_the_types_of_their_kernel(kernels: Any, kind: str) -> None:
    add_one = define("add_one", kernels.add_one)
    x = np.ones((2, 2), kind)
    if kind == "float32":
        assert add_one(x).tolist() == [[2, 2], [2, 2]]
    else:
        assert error_of(add_one, x) == f"views::add_one: operand 'x': expected float32, got {kind}"


def test_ops_take_the_ranks_of_their_kernel(kernels: Any) -> None:
    same = define("transpose", kernels.transpose)
    assert (
        error_of(same, np.ones(2)) == "views::transpose: operand 'x': expected 2 dimensions, got 1"
    )
    described = graphffi.load_ops(
        kernels.add_one.reference.split("::")[0], namespace="views"
    ).described
    assert described(np.float32([[1, 2]])).tolist() == [[1], [2]]
    expected = "operand 'x': expected float32 or float64, got int32"
    assert expected in error_of(described, np.ones((1, 2), "int32"))


def test_shape_rules_are_compared_with_the_kernel(kernels: Any) -> None:
    @graphffi.op("views::narrows", kernel=kernels.add_one)
    def narrows(x: Tensor) -> Tensor:
        return graphffi.empty(x.shape, "float16")

    text = "views::narrows: shape rule: result 'out': expected float32, got float16"
    assert error_of(narrows, np.ones(2, "f")) == text


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("add_one", {"dtypes": "float64 -> float32"}, "'x': expected float32, which the kernel's"),
        ("add_one", {"dtypes": "T -> T; T: float32 | int8"}, "got float32 or int8"),
        ("transpose", {"dims": "[n] -> [n]"}, "'x': expected 2 dimensions, which the kernel's"),
        ("transpose", {"dims": "a b c -> a b c"}, "got 'a b c'"),
        ("add_one", {"strided": True}, "strided: expected a parameter of any strides, got View<"),
        (
            "add_one",
            {"plan": "out, x"},
            "result 'out': expected a parameter that the kernel writes",
        ),
        ("accumulate", {"plan": "x, out"}, "'x': expected a parameter that the kernel only reads"),
        (
            "add_one",
            {"mutates": "x"},
            "'x': expected a parameter that the kernel writes, got View<",
        ),
    ],
)
def test_definitions_that_say_otherwise_are_refused(
    kernels: Any, name: str, options: dict[str, Any], text: str
) -> None:
    kernel = kernels.get_function(name)
    assert text in error_of(lambda: define(f"wrong_{name}", kernel, **options))


def test_definitions_may_say_more_or_nothing(kernels: Any) -> None:
    for number, options in enumerate(
        ({"dtypes": "T -> T"}, {"dtypes": "_ -> _"}, {"dims": "... -> ..."})
    ):
        op = define(f"more{number}", kernels.add_one, **options)
        assert op(np.ones(2, "f")).tolist() == [2, 2]
        assert "expected float32, got float64" in error_of(op, np.ones(2))


def test_kernels_are_chosen_by_what_they_state(kernels: Any) -> None:
    op = define("either", None)
    op.add_kernel(kernels.add_one)
    op.add_kernel(kernels.add_one_wide)
    for kind in ("float32", "float64"):
        assert op(np.ones(2, kind)).dtype == kind
    with pytest.raises(NotImplementedError, match=r"float64 for operand .x., got int32"):
        op(np.ones(2, "int32"))


def test_updated_operands_are_written(kernels: Any) -> None:
    @graphffi.op("views::accumulate", kernel=kernels.accumulate, mutates="total")
    def accumulate(total: Tensor, x: Tensor) -> None: ...

    total = np.ones(2, "f")
    accumulate(total, np.float32([1, 2]))
    assert total.tolist() == [2, 3]
    text = "views::accumulate: operand 'total': expected 1 dimension, got 2"
    assert error_of(accumulate, total[None], total) == text


def test_every_framework_has_the_same_error(kernels: Any) -> None:
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    pytest.importorskip("graphffi_torch")
    pytest.importorskip("graphffi_jax")
    op = define("everywhere", kernels.add_one)
    x = np.ones(2, "float16")
    calls = [
        lambda: op(x),
        lambda: op(torch.from_numpy(x)),
        lambda: torch.compile(op, fullgraph=True)(torch.from_numpy(x)),
        lambda: op(jax.numpy.asarray(x)),
        lambda: jax.jit(op)(jax.numpy.asarray(x)),
    ]
    text = "views::everywhere: operand 'x': expected float32, got float16"
    assert {error_of(call) for call in calls} == {text}


def test_kernels_are_chosen_by_the_device_that_they_state(kernels: Any) -> None:
    op = define("on_either", None)
    for kernel, plan in ((kernels.on_gpu, "out"), (kernels.add_one, "")):
        op.add_kernel(kernel, plan=plan)
    assert [kernel.device for kernel in op.definition.kernels] == ["cuda", "cpu"]
    assert op(np.ones(2, "f")).tolist() == [2, 2]
    assert "expected device cuda, got cpu" in op.explain(np.ones(2, "f"))

# SPDX-License-Identifier: Apache-2.0
"""Kernels that return tensors: their results are left out of the plan."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphffi
from graphffi import Tensor

X = torch.arange(6.0).reshape(2, 3)
SOURCE = """
namespace ffi = tvm::ffi;

ffi::Tensor Copy(ffi::TensorView x, double factor) {
  auto out =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(out.data_ptr())[i] =
        static_cast<float>(factor) * static_cast<const float*>(x.data_ptr())[i];
  }
  return out;
}

ffi::Tensor doubled(ffi::TensorView x) { return Copy(x, 2); }
ffi::Tensor identity(ffi::Tensor x) { return x; }
ffi::Array<ffi::Tensor> both(ffi::TensorView x) { return {Copy(x, 2), Copy(x, 3)}; }
int64_t number(ffi::TensorView x) { return 1; }
ffi::Tensor given_back(ffi::TensorView x, ffi::Tensor out) {
  for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(out.data_ptr())[i] = 7;
  return out;
}
"""


@pytest.fixture(scope="module")
def library() -> Any:
    names = ["doubled", "identity", "both", "number", "given_back"]
    return graphffi.cpp.load_inline("torch_returned", cpp_sources=SOURCE, functions=names)


def define(library: Any, name: str, spec: Any = None, plan: str = "x") -> Any:
    @graphffi.op(f"returned::{name}_{id(spec)}", kernel=library[name], plan=plan)
    def op(x: Tensor) -> Tensor:
        return graphffi.like(x) if spec is None else spec

    return op


def compiled(call: Any) -> Any:
    return torch.compile(call, fullgraph=True)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize(("name", "factor"), [("doubled", 2), ("identity", 1)])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)])
def test_a_returned_tensor_becomes_the_result(
    library: Any, wrap: Any, name: str, factor: int, shape: tuple[int, ...]
) -> None:
    x = torch.ones(shape)
    torch.testing.assert_close(wrap(define(library, name))(x), factor * x)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_several_and_results_that_are_given_back(library: Any, wrap: Any) -> None:
    @graphffi.op("returned::both", kernel=library.both, plan="x")
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return graphffi.like(x), graphffi.like(x)

    for result, factor in zip(wrap(both)(X), (2, 3), strict=True):
        torch.testing.assert_close(result, factor * X)
    given_back = define(library, "given_back", plan="x, out")
    torch.testing.assert_close(wrap(given_back)(X), torch.full_like(X, 7.0))


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("name", "spec", "kind", "text"),
    [
        (
            "doubled",
            graphffi.empty((3, 2), "float32"),
            ValueError,
            r"result 0: expected float32\[3, 2\] on cpu, got float32\[2, 3\] on cpu",
        ),
        (
            "doubled",
            graphffi.empty((2, 3), "int32"),
            TypeError,
            r"result 0: expected int32\[2, 3\] on cpu, got float32",
        ),
        ("number", None, TypeError, r"result 0: expected float32\[2, 3\] on cpu, got no tensor"),
        ("both", None, TypeError, "results: expected 1 returned tensors, got 2"),
    ],
)
def test_what_is_returned_must_be_the_result(
    library: Any, wrap: Any, name: str, spec: Any, kind: type[Exception], text: str
) -> None:
    op = define(library, name, spec)
    with pytest.raises(kind, match=f"{op.name}: {text}"):
        wrap(op)(X)


def test_tensors_returned_beside_results_to_fill_are_an_error(library: Any) -> None:
    def fill(x: Any, out: Any) -> Any:
        return graphffi.from_dlpack(torch.zeros(4))

    with pytest.raises(TypeError, match="result: expected None, got returned tensors"):
        graphffi.call_tvm_ffi(fill, X, out=graphffi.like(X))

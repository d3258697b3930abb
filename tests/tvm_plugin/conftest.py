# SPDX-License-Identifier: Apache-2.0
"""Kernels and ops; skips by name where apache-tvm can't be imported in this process."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

import graphffi
from graphffi import Tensor


def why_not() -> str:
    """Why these tests can't run here, or nothing."""
    missing = [name for name in ("tvm", "torch") if importlib.util.find_spec(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    if graphffi.runtime_info().kind == "bundled":
        return "apache-tvm brings its own runtime: needs GRAPHFFI_RUNTIME=apache"
    return ""


REASON = why_not()
# They import apache-tvm; test_needs.py says why they are left out.
collect_ignore = ["test_convert.py", "test_family.py", "test_functions.py"] if REASON else []

KERNELS = r"""
#include <graphffi/view.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cmath>
#include <string>

namespace ffi = tvm::ffi;
using In = graphffi::View<const float>;
using Out = graphffi::View<float>;

void Twice(In x, Out out) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = 2 * x[i];
}
void Thrice(Out out, In x) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = 3 * x[i];
}
void Scale(double factor, Out x) {
  for (int64_t i = 0; i < x.numel(); ++i) x[i] *= static_cast<float>(factor);
}
void Split(In x, Out low, Out high) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    low[i] = x[i] - 1;
    high[i] = x[i] + 1;
  }
}
void AddMaybe(In x, ffi::Optional<ffi::TensorView> bias, Out out) {
  const float b = bias.has_value() ? static_cast<const float*>(bias.value().data_ptr())[0] : 0.f;
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] + b;
}
void Total(ffi::Array<ffi::Tensor> xs, Out out) {
  for (int64_t i = 0; i < out.numel(); ++i) {
    out[i] = 0;
    for (const auto& x : xs) out[i] += static_cast<const float*>(x.data_ptr())[i];
  }
}
void Numbers(In x, int64_t n, double f, bool b, ffi::String s, DLDataType t, ffi::Array<int64_t> ns,
             Out out) {
  out[0] = static_cast<float>(n % 1000);
  out[1] = std::signbit(f) ? -1.f : std::isnan(f) ? 2.f : std::isinf(f) ? 3.f : 1.f;
  out[2] = b ? 1.f : 0.f;
  out[3] = static_cast<float>(s.size());
  out[4] = t.bits;
  out[5] = 0;
  for (int64_t v : ns) out[5] = static_cast<float>(v);
}
void Fill(In, int64_t n, Out out) {
  for (int64_t i = 0; i < out.numel(); ++i) out[i] = static_cast<float>(n);
}
void Swap(Out x, Out y) {
  for (int64_t i = 0; i < x.numel(); ++i) std::swap(x[i], y[i]);
}
void ThroughScratch(In x, ffi::TensorView scratch, Out out) {
  float* y = static_cast<float*>(scratch.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) y[i] = x[i] + 5;
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = y[i];
}
void Fail(In, Out) { TVM_FFI_THROW(IndexError) << "no such row"; }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, Twice);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(thrice, Thrice);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(split, Split);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_maybe, AddMaybe);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, Total);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(numbers, Numbers);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill, Fill);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swap, Swap);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(through_scratch, ThroughScratch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, Fail);
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the kernels."""
    source = tmp_path_factory.mktemp("kernels") / "kernels.cc"
    source.write_text(KERNELS)
    return str(graphffi.cpp.build("relax_tests", sources=[str(source)]))


@pytest.fixture(scope="session")
def ops(library: str) -> SimpleNamespace:
    """Ops of these kernels, of the namespace `relax_tests`."""

    def like(x: Any, *_: Any) -> Any:
        return graphffi.like(x)

    def define(name: str, schema: str, rule: Any = like, **options: Any) -> graphffi.Op:
        kernel = f"{library}::{name}"
        rule = None if schema.endswith("-> ()") else rule
        return graphffi.define_op(
            f"relax_tests::{name}", schema=schema, kernel=kernel, infer=rule, **options
        )

    def split(x: Tensor) -> tuple[Tensor, Tensor]:
        return graphffi.like(x), graphffi.like(x)

    def numbers(x: Any, *_: Any) -> Any:
        return graphffi.empty((6,), x.dtype)

    def at_least_four(x: Any, *_: Any) -> Any:
        graphffi.check(x.shape[0] >= 4, "expected 4 rows or more")
        return graphffi.like(x)

    return SimpleNamespace(
        twice=define("twice", "(Tensor x) -> Tensor"),
        thrice=define("thrice", "(Tensor x) -> Tensor", plan="out, x"),
        scale=define("scale", "(Tensor(a!) x, float factor=2.0) -> ()", plan="factor, x"),
        split=define("split", "(Tensor x) -> (Tensor low, Tensor high)", split),
        add_maybe=define("add_maybe", "(Tensor x, Tensor? bias=None) -> Tensor"),
        total=define("total", "(Tensor[] xs) -> Tensor", lambda xs: graphffi.like(xs[0])),
        numbers=define(
            "numbers",
            "(Tensor x, int n, float f=-0.0, bool b=True, str s='ä', dtype t='int8', "
            "int[] ns=[]) -> Tensor",
            numbers,
        ),
        fill=define(
            "fill", "(Tensor x, int n) -> Tensor", lambda x, n: graphffi.empty((n, 2), x.dtype)
        ),
        swap=define("swap", "(Tensor(a!) x, Tensor(b!) y) -> ()"),
        through_scratch=define(
            "through_scratch",
            "(Tensor x) -> Tensor",
            plan="x, workspace, out",
            workspace=lambda x: 4 * x.numel,
        ),
        fail=define("fail", "(Tensor x) -> Tensor"),
        twice_into=graphffi.define_op(
            "relax_tests::twice_into",
            schema="(Tensor x, Tensor(a!) y) -> ()",
            kernel=f"{library}::twice",
        ),
        four=graphffi.define_op(
            "relax_tests::four",
            schema="(Tensor x) -> Tensor",
            kernel=f"{library}::twice",
            infer=at_least_four,
        ),
    )

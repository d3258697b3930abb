# SPDX-License-Identifier: Apache-2.0
"""Kernels and a family of ops that covers every kind of operand, attribute and result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

import graphffi
from graphffi import Tensor
from tests.hidden_names import HIDES_ALL, hide_features, skip_tests_of_names

if HIDES_ALL:
    hide_features()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if HIDES_ALL:
        skip_tests_of_names(items)


KERNELS = r"""
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <string>

namespace ffi = tvm::ffi;

// Reads any strides; writes row-major memory.
template <typename F>
void Map(const ffi::TensorView& x, const ffi::TensorView& y, const F& f) {
  TVM_FFI_CHECK(x.dtype() == y.dtype() && x.dtype().bits == 32, TypeError)
      << "map: operand 'x': expected float32";
  int64_t n = x.numel();
  float* out = static_cast<float*>(y.data_ptr());
  const float* in = static_cast<const float*>(x.data_ptr());
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, offset = 0;
    for (int d = x.ndim() - 1; d >= 0; --d) {
      offset += rest % x.size(d) * x.stride(d);
      rest /= x.size(d);
    }
    out[i] = f(in[offset]);
  }
}

void add(ffi::TensorView x, double a, ffi::TensorView y) {
  Map(x, y, [a](float v) { return v + static_cast<float>(a); });
}
void split(ffi::TensorView small, ffi::TensorView x, ffi::TensorView large) {
  Map(x, small, [](float v) { return v - 1; });
  Map(x, large, [](float v) { return v + 1; });
}
void masked(ffi::TensorView x, ffi::Optional<ffi::TensorView> mask, ffi::TensorView y) {
  float bias = mask.has_value() ? static_cast<const float*>(mask.value().data_ptr())[0] : 0.f;
  Map(x, y, [bias](float v) { return v + bias; });
}
void total(ffi::Array<ffi::Tensor> xs, ffi::TensorView y) {
  float* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < y.numel(); ++i) {
    out[i] = 0;
    for (const auto& x : xs) out[i] += static_cast<const float*>(x.data_ptr())[i];
  }
}
void attributes(ffi::TensorView x, int64_t n, double f, bool b, ffi::String s, DLDataType t,
                DLDevice d, ffi::Array<int64_t> ns, ffi::Optional<int64_t> o, ffi::TensorView y) {
  float sum = static_cast<float>(n + f + (b ? 100 : 0) + s.size() + t.bits + d.device_type * 1000);
  for (int64_t v : ns) sum += static_cast<float>(v);
  if (o.has_value()) sum += static_cast<float>(o.value());
  Map(x, y, [sum](float v) { return v + sum; });
}
void constants(ffi::TensorView y, ffi::AnyView none, bool yes, int64_t seven, ffi::String text,
               ffi::TensorView x) {
  float sum = (none == nullptr ? 1.f : 0.f) + (yes ? 1.f : 0.f) + static_cast<float>(seven) +
              static_cast<float>(text.size());
  Map(x, y, [sum](float v) { return v + sum; });
}
void increment(ffi::TensorView x, double by) {
  Map(x, x, [by](float v) { return v + static_cast<float>(by); });
}
void increment_and_copy(ffi::TensorView x, ffi::TensorView before) {
  Map(x, before, [](float v) { return v; });
  Map(x, x, [](float v) { return v + 1; });
}
void fail(ffi::TensorView x, ffi::String kind, ffi::TensorView y) {
  throw ffi::Error(std::string(kind), "mytest::fail: operand 'x': expected luck, got none", "");
}
ffi::Tensor* kept = nullptr;
void keep(ffi::Tensor x, ffi::TensorView y) {
  delete kept;
  kept = new ffi::Tensor(x);
  Map(ffi::TensorView(x), y, [](float v) { return v; });
}
ffi::Tensor kept_tensor() { return *kept; }
void allocate(ffi::TensorView x, ffi::TensorView y) {
  ffi::Tensor t = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(x.shape()),
                                            x.dtype(), x.device());
  Map(x, ffi::TensorView(t), [](float v) { return v + 1; });
  Map(ffi::TensorView(t), y, [](float v) { return v; });
  delete kept;
  kept = new ffi::Tensor(t);
}
"""


@pytest.fixture(scope="session")
def kernels() -> Any:
    """The library of the kernels above."""
    names = (
        "add split masked total attributes constants increment increment_and_copy fail keep "
        "kept_tensor allocate"
    )
    return graphffi.cpp.load_inline("torch_tests", cpp_sources=KERNELS, functions=names.split())


class Pair(NamedTuple):
    """Results with names."""

    small: Tensor
    large: Tensor


@pytest.fixture(scope="session")
def ops(kernels: Any) -> Any:  # noqa: C901 - a list of definitions
    """One op per feature."""

    @graphffi.op("mytest::add", kernel=kernels.add)
    def add(x: Tensor, a: float = 1.0) -> Tensor:
        """X + a."""
        graphffi.check(x.dtype == "float32", f"operand 'x': expected float32, got {x.dtype}")
        return graphffi.like(x)

    @graphffi.op("mytest::split", kernel=kernels.split, plan="small, x, large")
    def split(x: Tensor) -> Pair:
        return Pair(graphffi.like(x), graphffi.like(x))

    @graphffi.op("mytest::masked", kernel=kernels.masked)
    def masked(x: Tensor, mask: Tensor | None = None) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("mytest::total_of", kernel=kernels.total, plan="xs, out")
    def total_of(xs: list[Tensor], x: Tensor) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("mytest::attributes", kernel=kernels.attributes)
    def attributes(
        x: Tensor,
        n: int = 1,
        f: float = 2.0,
        b: bool = True,
        s: str = "abc",
        t: graphffi.dtype = "float16",  # type: ignore[assignment]
        d: graphffi.Device = "cpu",  # type: ignore[assignment]
        ns: list[int] = (1, 2),  # type: ignore[assignment]
        o: int | None = None,
    ) -> Tensor:
        return graphffi.like(x)

    @graphffi.op(
        "mytest::constants", kernel=kernels.constants, plan='out, None, true, 7, "four", x'
    )
    def constants(x: Tensor) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("mytest::increment", kernel=kernels.increment, mutates=("x",))
    def increment(x: Tensor, by: float = 1.0) -> None:
        return None

    @graphffi.op("mytest::increment_and_copy", kernel=kernels.increment_and_copy, mutates=("x",))
    def increment_and_copy(x: Tensor) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("mytest::fail", kernel=kernels.fail)
    def fail(x: Tensor, kind: str) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("mytest::keep", kernel=kernels.keep)
    def keep(x: Tensor) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("mytest::allocate", kernel=kernels.allocate)
    def allocate(x: Tensor) -> Tensor:
        return graphffi.like(x)

    return SimpleNamespace(**{k: v for k, v in locals().items() if isinstance(v, graphffi.Op)})


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch.compiler.reset()

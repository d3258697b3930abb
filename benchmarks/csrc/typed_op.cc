// SPDX-License-Identifier: Apache-2.0
// The peer in a torch graph: the same work as an op written by hand against libtorch.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

at::Tensor Touch(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr());
  return out;
}

at::Tensor TouchMeta(const at::Tensor& x) { return at::empty_like(x); }

}  // namespace

TORCH_LIBRARY(benchmark_typed, library) { library.def("touch(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(benchmark_typed, CPU, library) { library.impl("touch", Touch); }
TORCH_LIBRARY_IMPL(benchmark_typed, Meta, library) { library.impl("touch", TouchMeta); }

// SPDX-License-Identifier: Apache-2.0
// The same kernel as an operator of torch.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

void Write(const at::Tensor& x, at::Tensor out) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && out.scalar_type() == at::kFloat);
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr());
}

}  // namespace

TORCH_LIBRARY(benchmark_library, library) { library.def("write(Tensor x, Tensor(a!) out) -> ()"); }
TORCH_LIBRARY_IMPL(benchmark_library, CPU, library) { library.impl("write", &Write); }

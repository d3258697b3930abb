// SPDX-License-Identifier: Apache-2.0
// The peer on torch's stable ABI: an op that writes its operand, one build for several releases.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

namespace {

using torch::stable::Tensor;

void Write(Tensor x, Tensor out) {
  *static_cast<float*>(out.mutable_data_ptr()) = *static_cast<const float*>(x.const_data_ptr());
}

}  // namespace

STABLE_TORCH_LIBRARY(benchmark_stable, library) {
  library.def("write(Tensor x, Tensor(a!) out) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(benchmark_stable, CPU, library) {
  library.impl("write", TORCH_BOX(&Write));
}

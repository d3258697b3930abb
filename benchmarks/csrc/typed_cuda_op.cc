// SPDX-License-Identifier: Apache-2.0
// The peer on CUDA: the same launch as an op written by hand against libtorch.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

extern "C" void launch_touch(const float* from, float* to, void* stream);

namespace {

at::Tensor Touch(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  launch_touch(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
               c10::cuda::getCurrentCUDAStream(x.get_device()).stream());
  return out;
}

at::Tensor TouchMeta(const at::Tensor& x) { return at::empty_like(x); }

}  // namespace

TORCH_LIBRARY(benchmark_typed_cuda, library) { library.def("touch(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(benchmark_typed_cuda, CUDA, library) { library.impl("touch", Touch); }
TORCH_LIBRARY_IMPL(benchmark_typed_cuda, Meta, library) { library.impl("touch", TouchMeta); }

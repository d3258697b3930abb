// SPDX-License-Identifier: Apache-2.0
// The peer in a torch graph: the same work as an op written by hand against libtorch.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

at::Tensor Touch(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr());
  return out;
}

at::Tensor TouchMeta(const at::Tensor& x) { return at::empty_like(x); }

/// The gradient is the same work.
struct TouchFunction : torch::autograd::Function<TouchFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    at::AutoDispatchBelowAutograd below;
    return Touch(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {Touch(gradients[0])};
  }
};

at::Tensor TouchAutograd(const at::Tensor& x) { return TouchFunction::apply(x); }

}  // namespace

TORCH_LIBRARY(benchmark_typed, library) {
  library.def("touch(Tensor x) -> Tensor");
  library.def("touch_vjp(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(benchmark_typed, CPU, library) {
  library.impl("touch", Touch);
  library.impl("touch_vjp", Touch);
}
TORCH_LIBRARY_IMPL(benchmark_typed, Autograd, library) { library.impl("touch_vjp", TouchAutograd); }
TORCH_LIBRARY_IMPL(benchmark_typed, Meta, library) { library.impl("touch", TouchMeta); }

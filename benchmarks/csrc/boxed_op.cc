// SPDX-License-Identifier: Apache-2.0
// The peer of eager raw calls: an operator of the same signature written by hand against libtorch,
// whose kernel finds what to call by name and reads its lists.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>

namespace {

using Kernel = void (*)(const at::Tensor& x, const at::Tensor& out);

void Touch(const at::Tensor& x, const at::Tensor& out) {
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr());
}

void Call(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto* const kernels = new std::unordered_map<std::string, Kernel>{{"touch", &Touch}};
  constexpr size_t kArguments = 8;
  const auto arguments = torch::jit::last(*stack, kArguments);
  const auto inputs = arguments[1].toListRef(), outputs = arguments[2].toListRef();
  kernels->at(arguments[0].toStringRef())(inputs[0].toTensor(), outputs[0].toTensor());
  torch::jit::drop(*stack, kArguments);
}

}  // namespace

TORCH_LIBRARY(benchmark_boxed, library) {
  library.def(
      "call(str func, Tensor?[] inputs, Tensor(a!)[] outputs, str plan, SymInt[] ints, float[] "
      "floats, str[] strs, str digest) -> ()");
}
TORCH_LIBRARY_IMPL(benchmark_boxed, CPU, library) {
  library.impl("call", torch::CppFunction::makeFromBoxedFunction<&Call>());
}

// SPDX-License-Identifier: Apache-2.0
// out = alpha * x + 1, built by the tests with the headers of an installed apache-tvm-ffi.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

void ScaleAdd(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double alpha) {
  if (x.dtype().code != kDLFloat || x.dtype().bits != 32) {
    TVM_FFI_THROW(TypeError) << "scale_add: operand 'x': expected float32";
  }
  if (x.numel() != out.numel()) {
    TVM_FFI_THROW(ValueError) << "scale_add: result 'out': expected " << x.numel()
                              << " elements, got " << out.numel();
  }
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = static_cast<float>(alpha) * from[i] + 1.0f;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale_add, ScaleAdd);

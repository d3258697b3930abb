// SPDX-License-Identifier: Apache-2.0
// Two kernels on the CPU: add_one and scale. Their ops say that they take float32, which graphffi
// checks; it passes row-major tensors.
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

/// \throws Error(ValueError), which arrives in Python as that type.
void Check(const char* kernel, ffi::TensorView x) {
  TVM_FFI_CHECK(x.device().device_type == kDLCPU, ValueError)
      << kernel << ": operand 'x': expected a tensor on cpu";
}

void AddOne(ffi::TensorView x, ffi::TensorView out) {
  Check("add_one", x);
  const float* src = static_cast<const float*>(x.data_ptr());
  float* dst = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) dst[i] = src[i] + 1.0f;
}

void Scale(ffi::TensorView x, float factor, ffi::TensorView out) {
  Check("scale", x);
  const float* src = static_cast<const float*>(x.data_ptr());
  float* dst = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) dst[i] = src[i] * factor;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);

// SPDX-License-Identifier: Apache-2.0
// Two kernels on the CPU, for float32: add_one and scale.
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

/// \throws Error(TypeError) or Error(ValueError), which arrive in Python as these types.
void Check(const char* kernel, ffi::TensorView x, ffi::TensorView out) {
  constexpr DLDataType kFloat32{kDLFloat, 32, 1};
  if (x.dtype() != kFloat32 || out.dtype() != kFloat32) {
    TVM_FFI_THROW(TypeError) << kernel << ": operand 'x': expected float32, got " << x.dtype();
  }
  if (x.device().device_type != kDLCPU || !x.IsContiguous() || !out.IsContiguous()) {
    TVM_FFI_THROW(ValueError) << kernel << ": operand 'x': expected contiguous tensors on cpu";
  }
  if (x.numel() != out.numel()) {
    TVM_FFI_THROW(ValueError) << kernel << ": result 'out': expected " << x.numel()
                              << " elements, got " << out.numel();
  }
}

void AddOne(ffi::TensorView x, ffi::TensorView out) {
  Check("add_one", x, out);
  const float* src = static_cast<const float*>(x.data_ptr());
  float* dst = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) dst[i] = src[i] + 1.0f;
}

void Scale(ffi::TensorView x, float factor, ffi::TensorView out) {
  Check("scale", x, out);
  const float* src = static_cast<const float*>(x.data_ptr());
  float* dst = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) dst[i] = src[i] * factor;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);

// SPDX-License-Identifier: Apache-2.0
// A kernel that checks what a shape rule can't know, for tests of what its callers then see.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <csignal>

namespace {

namespace ffi = tvm::ffi;

void Clamp(ffi::TensorView x, ffi::TensorView out, double limit, bool on_gpu) {
  if (on_gpu && x.device().device_type != kDLCUDA) {
    TVM_FFI_THROW(ValueError) << "faulty::clamp: operand 'x': expected a tensor on cuda, got cpu";
  }
  TVM_FFI_CHECK(limit >= 0, ValueError)
      << "faulty::clamp: attribute 'limit': expected at least 0, got " << limit;
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (from[i] < 0)
      TVM_FFI_THROW(IndexError) << "faulty::clamp: operand 'x': expected no negative";
    to[i] = std::min(from[i], static_cast<float>(limit));
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(clamp, Clamp);

// As C code stops: the exception stays with Python.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_stop(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  std::raise(SIGUSR1);
  return TVMFFIEnvCheckSignals();
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_stop_as_before_0_1_9(void*, const TVMFFIAny*, int32_t,
                                                                 TVMFFIAny*) {
  std::raise(SIGUSR1);
  return TVMFFIEnvCheckSignals() != 0 ? -2 : 0;
}

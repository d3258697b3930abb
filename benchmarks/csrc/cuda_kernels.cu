// SPDX-License-Identifier: Apache-2.0
// Kernels for CUDA that do next to nothing: a call costs little more than its launch.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

namespace {

namespace ffi = tvm::ffi;

__global__ void TouchKernel(const float* from, float* to) { *to = *from + 1.0f; }

void Touch(ffi::TensorView x, ffi::TensorView out);

}  // namespace

/// Launches the kernel: what operators written by hand call.
extern "C" __attribute__((visibility("default"))) void launch_touch(const float* from, float* to,
                                                                    void* stream) {
  TouchKernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(from, to);
}

namespace {

void Touch(ffi::TensorView x, ffi::TensorView out) {
  const DLDevice device = x.device();
  launch_touch(static_cast<const float*>(x.data_ptr()), static_cast<float*>(out.data_ptr()),
               TVMFFIEnvGetStream(device.device_type, device.device_id));
}

/// Launches that many times: the floor of all calls.
void TouchTimes(ffi::TensorView x, ffi::TensorView out, int64_t times) {
  for (int64_t i = 0; i < times; ++i) Touch(x, out);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch, Touch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch_times, TouchTimes);

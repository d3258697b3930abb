// SPDX-License-Identifier: Apache-2.0
// CUDADeviceGuard: another current CUDA device for a scope.
#pragma once

#include <tvm/ffi/extra/cuda/base.h>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Makes device_index the thread's current CUDA device, and the former one again at the end of the
/// scope.
class CUDADeviceGuard {
 public:
  /// Changes nothing: set_device_index may follow.
  CUDADeviceGuard() = default;
  explicit CUDADeviceGuard(int device_index) { set_device_index(device_index); }
  CUDADeviceGuard(const CUDADeviceGuard&) = delete;
  CUDADeviceGuard& operator=(const CUDADeviceGuard&) = delete;
  CUDADeviceGuard(CUDADeviceGuard&&) = delete;
  CUDADeviceGuard& operator=(CUDADeviceGuard&&) = delete;
  ~CUDADeviceGuard() noexcept(false) {
    if (current_ != original_) TVM_FFI_CHECK_CUDA_ERROR(cudaSetDevice(original_));
  }

  /// \throws Error(RuntimeError) if there is no such device
  void set_device_index(int device_index) {
    if (original_ < 0) {
      TVM_FFI_CHECK_CUDA_ERROR(cudaGetDevice(&original_));
      current_ = original_;
    }
    if (device_index != current_) {
      TVM_FFI_CHECK_CUDA_ERROR(cudaSetDevice(device_index));
      current_ = device_index;
    }
  }

 private:
  int original_ = -1;
  int current_ = -1;
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

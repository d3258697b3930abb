// SPDX-License-Identifier: Apache-2.0
// The env of one call: the stream and allocator that a kernel asks for, set for a scope and always
// restored.
#pragma once

#include <tvm/ffi/extra/c_env_api.h>

namespace graphffi {

/// Sets this thread's env stream of `device` (not for the CPU, which has none) and its allocator,
/// and restores what was there, NULL included. The only code that sets either.
class EnvScope {
 public:
  EnvScope(DLDevice device, void* stream, DLPackManagedTensorAllocator allocator)
      : device_(device), has_stream_(device.device_type != kDLCPU) {
    if (has_stream_) {
      TVMFFIEnvSetStream(device_.device_type, device_.device_id, stream, &previous_stream_);
    }
    TVMFFIEnvSetDLPackManagedTensorAllocator(allocator, 0, &previous_allocator_);
  }
  ~EnvScope() {
    TVMFFIEnvSetDLPackManagedTensorAllocator(previous_allocator_, 0, nullptr);
    if (has_stream_) {
      TVMFFIEnvSetStream(device_.device_type, device_.device_id, previous_stream_, nullptr);
    }
  }
  EnvScope(const EnvScope&) = delete;
  EnvScope& operator=(const EnvScope&) = delete;

 private:
  DLDevice device_;
  bool has_stream_;
  void* previous_stream_ = nullptr;
  DLPackManagedTensorAllocator previous_allocator_ = nullptr;
};

}  // namespace graphffi

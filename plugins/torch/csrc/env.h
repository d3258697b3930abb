// SPDX-License-Identifier: Apache-2.0
// Torch's side of a call's env: device guard, current stream, at::empty as allocator.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <memory>
#include <utility>
#include <vector>

#include "env/env_scope.h"
#include "errors.h"

namespace graphffi_torch {

/// The DLPackManagedTensorAllocator of every call: at::empty, contiguous.
int AllocateWithTorch(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
                      void (*set_error)(void* error_ctx, const char* kind, const char* message));

/// The process's, which uses that one unless the thread is in another framework's call. Calls on
/// the CPU leave it in place.
extern GRAPHFFI_TORCH_API DLPackManagedTensorAllocator shared_allocator;

/// The device's current stream as its driver knows it (a cudaStream_t, say); NULL for the CPU.
/// \throws c10::Error where torch does not know the handles of this device's streams.
GRAPHFFI_TORCH_API void* CurrentStream(c10::Device device);

/// Makes `device` current and its current stream and torch's allocator the env, for a scope. Any
/// device type that has a guard implementation, PrivateUse1 included; not the CPU, which needs only
/// the allocator.
class TorchEnvScope {
 public:
  explicit TorchEnvScope(c10::Device device);

  /// The current stream of another device of the call becomes its env stream, too. Nothing for the
  /// CPU and for devices that are known.
  void AddDevice(c10::Device device);

  /// The native handle of the current stream.
  void* stream() const { return stream_; }

 private:
  c10::Device device_;
  c10::DeviceGuard guard_;
  void* stream_;
  graphffi::EnvScope scope_;
  // Calls on several accelerators are rare.
  std::vector<std::pair<c10::Device, std::unique_ptr<graphffi::EnvScope>>> others_;
};

}  // namespace graphffi_torch

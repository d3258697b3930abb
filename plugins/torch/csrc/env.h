// SPDX-License-Identifier: Apache-2.0
// Torch's side of a call's env: device guard, current stream, at::empty as allocator.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include "callframe/env_scope.h"

namespace graphffi_torch {

/// Makes `device` current and its current stream and torch's allocator the env, for a scope. Any
/// device type that has a guard implementation, PrivateUse1 included.
class TorchEnvScope {
 public:
  explicit TorchEnvScope(c10::Device device);

  /// The native handle of the current stream; NULL on the CPU.
  void* stream() const { return stream_; }

 private:
  c10::OptionalDeviceGuard guard_;
  void* stream_;
  graphffi::EnvScope scope_;
};

}  // namespace graphffi_torch

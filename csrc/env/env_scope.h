// SPDX-License-Identifier: Apache-2.0
// The env of one call: the stream and allocator that a kernel asks for, set for a scope and always
// restored.
#pragma once

#include <tvm/ffi/extra/c_env_api.h>

namespace graphffi {

/// Sets this thread's allocator for a scope. Nothing is set where the thread has it already, as the
/// process's: that is what makes calls on the CPU cheap.
class AllocatorScope {
 public:
  explicit AllocatorScope(DLPackManagedTensorAllocator allocator)
      : AllocatorScope(allocator, allocator) {}
  /// `as_good` may stay, too.
  AllocatorScope(DLPackManagedTensorAllocator allocator, DLPackManagedTensorAllocator as_good)
      : is_set_(!HasEither(allocator, as_good)) {
    if (is_set_) {
      TVMFFIEnvSetDLPackManagedTensorAllocator(allocator, 0, &previous_);
    }
  }
  /// One that threads have during such scopes alone: whether this one has it is not asked.
  enum Own { kOwn };
  AllocatorScope(DLPackManagedTensorAllocator allocator, Own) : is_set_(true) {
    TVMFFIEnvSetDLPackManagedTensorAllocator(allocator, 0, &previous_);
  }
  ~AllocatorScope() {
    if (is_set_) {
      TVMFFIEnvSetDLPackManagedTensorAllocator(previous_, 0, nullptr);
    }
  }
  AllocatorScope(const AllocatorScope&) = delete;
  AllocatorScope& operator=(const AllocatorScope&) = delete;

  /// Whether a scope with these would set nothing.
  static bool HasEither(DLPackManagedTensorAllocator allocator,
                        DLPackManagedTensorAllocator as_good) {
    const DLPackManagedTensorAllocator current = TVMFFIEnvGetDLPackManagedTensorAllocator();
    return current == as_good || current == allocator;
  }

  /// For threads that have no allocator of their own, unless the process has one already.
  static void ProvideForProcess(DLPackManagedTensorAllocator allocator) {
    DLPackManagedTensorAllocator own = nullptr;
    TVMFFIEnvSetDLPackManagedTensorAllocator(nullptr, 0, &own);
    const bool is_missing = TVMFFIEnvGetDLPackManagedTensorAllocator() == nullptr;
    if (is_missing) TVMFFIEnvSetDLPackManagedTensorAllocator(allocator, 1, nullptr);
    TVMFFIEnvSetDLPackManagedTensorAllocator(own, 0, nullptr);
  }

 private:
  bool is_set_;
  DLPackManagedTensorAllocator previous_ = nullptr;
};

/// Sets this thread's env stream of `device` (not for the CPU, which has none) and its allocator,
/// and restores what was there, NULL included. The only code that sets the stream.
class EnvScope {
 public:
  EnvScope(DLDevice device, void* stream, DLPackManagedTensorAllocator allocator)
      : EnvScope(device, stream, allocator, allocator) {}
  /// `as_good`, another allocator or kOwn, as for AllocatorScope.
  template <typename AsGood>
  EnvScope(DLDevice device, void* stream, DLPackManagedTensorAllocator allocator, AsGood as_good)
      : device_(device), has_stream_(device.device_type != kDLCPU), allocator_(allocator, as_good) {
    if (has_stream_) {
      TVMFFIEnvSetStream(device_.device_type, device_.device_id, stream, &previous_stream_);
    }
  }
  ~EnvScope() {
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
  AllocatorScope allocator_;
};

}  // namespace graphffi

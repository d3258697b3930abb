// SPDX-License-Identifier: Apache-2.0
// GPUs: what graphs need of memory that the CPU does not reach.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstddef>
#include <cstdint>

namespace graphffi_standalone {

/// Pieces of memory: `count` of `bytes` bytes, whose beginnings are as many bytes apart as is said.
struct Pieces {
  int64_t count;
  size_t bytes;
  char* to;
  int64_t written;
  const char* from;  ///< not of pieces that are cleared
  int64_t read;
};

/// The functions of a kind of GPUs. Each call needs a DeviceScope; work is in the order of the
/// env's stream. All throw Error(RuntimeError) with what the driver says.
struct DeviceKind {
  DLDeviceType type;
  const char* name;
  void (*enter)(int32_t id);
  void (*leave)();
  /// From and to devices of the kind and the CPU.
  void (*copy)(int32_t id, const Pieces& pieces);
  void (*clear)(int32_t id, const Pieces& pieces);
  /// Waits until the stream's work is done.
  void (*wait)(int32_t id);
  /// A copy, complete, of the CPU's memory, that is never given back.
  void* (*upload)(int32_t id, const void* from, size_t bytes);
  /// Tensors of the kind, and of the CPU, for hosts that have no allocator.
  DLPackManagedTensorAllocator allocate;
};

extern const DeviceKind kCuda;

/// The kind for the library's programs; NULL if all are for the CPU. Each library defines it, so
/// that it has no code for GPUs that it does not need.
extern const DeviceKind* const kOptDeviceKind;

/// The compute capability of the library's kernels, as 90 for 9.0; 0: it has none.
extern const int32_t kComputeCapability;

/// Makes a device current for a scope; nothing for the CPU.
class DeviceScope {
 public:
  explicit DeviceScope(DLDevice device) : is_entered_(device.device_type != kDLCPU) {
    if (is_entered_) kOptDeviceKind->enter(device.device_id);
  }
  ~DeviceScope() {
    if (is_entered_) kOptDeviceKind->leave();
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const bool is_entered_;
};

}  // namespace graphffi_standalone

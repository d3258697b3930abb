// SPDX-License-Identifier: Apache-2.0
// Memory for tensors that kernels allocate: of ONNX Runtime's allocators.
#pragma once

#include <dlpack/dlpack.h>

#include <memory>

#include "env/allocation.h"
#include "ort/ort_api.h"

namespace graphffi_onnxruntime {

/// An allocator of a session, which lives as long as tensors in its memory. Thread-safe.
class SessionAllocator {
 public:
  /// That of a node's device. \throws Error(RuntimeError)
  static std::shared_ptr<SessionAllocator> Of(const ort::Api* api, const ort::KernelInfo* info);
  ~SessionAllocator();
  SessionAllocator(const SessionAllocator&) = delete;
  SessionAllocator& operator=(const SessionAllocator&) = delete;

  /// \throws Error(MemoryError)
  void* Allocate(size_t num_bytes);
  void Free(void* data);

 private:
  SessionAllocator(const ort::Api* api, ort::Allocator* owned) : api_(api), owned_(owned) {}

  const ort::Api* api_;
  ort::Allocator* owned_;
};

/// The env's allocator: from the scope that is open on this thread.
int AllocateInSession(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                      graphffi::SetAllocationError set_error);

/// Has AllocateInSession use an allocator, on this thread.
class SessionMemoryScope {
 public:
  explicit SessionMemoryScope(const std::shared_ptr<SessionAllocator>& allocator)
      : outer_(current_) {
    current_ = &allocator;
  }
  ~SessionMemoryScope() { current_ = outer_; }
  SessionMemoryScope(const SessionMemoryScope&) = delete;
  SessionMemoryScope& operator=(const SessionMemoryScope&) = delete;

 private:
  friend int AllocateInSession(DLTensor*, DLManagedTensorVersioned**, void*,
                               graphffi::SetAllocationError);
  // Of each call: found through the thread's own register, not by a call of the loader.
  [[gnu::tls_model(
      "initial-exec")]] static thread_local const std::shared_ptr<SessionAllocator>* current_;
  const std::shared_ptr<SessionAllocator>* outer_;
};

}  // namespace graphffi_onnxruntime

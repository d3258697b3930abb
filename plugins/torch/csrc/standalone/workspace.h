// SPDX-License-Identifier: Apache-2.0
// A run's memory in a block that the caller gives.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory.h"

namespace graphffi_standalone {

/// While one lives, tensors that its thread makes are in the caller's memory, or, without any, only
/// counted. KeptMemory (graph.h) is where they are not.
class Workspace {
 public:
  /// Borrows the memory; NULL: only counts. A block of no bytes may be at NULL, too.
  explicit Workspace(const DLTensor* opt_memory);
  ~Workspace() { current_ = nullptr; }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// This thread's workspace; NULL: it takes memory from its lists.
  static Workspace* OptCurrent() { return current_; }
  static Workspace* OptExchange(Workspace* opt_workspace) {
    return std::exchange(current_, opt_workspace);
  }
  /// A number other than 0 that no other workspace has.
  uint64_t id() const { return id_; }

  /// At least `bytes` bytes, 64-byte aligned. \throws Error(MemoryError)
  void* Take(size_t bytes);
  void Give(void* memory, size_t bytes);

  bool is_counting() const { return is_counting_; }
  /// Enough bytes for all that was taken.
  size_t bytes() const { return used_ + kAlignment - 1; }
  /// Whether a tensor is still in it.
  bool is_in_use() const { return num_taken_ != 0; }

 private:
  static constexpr size_t kAlignment = 64;
  static thread_local Workspace* current_;

  const uint64_t id_;
  const bool is_counting_;
  char* opt_begin_;
  size_t capacity_;
  size_t used_ = 0;
  int64_t num_taken_ = 0;
  FreeBlock* opt_free_[kNumSizeClasses] = {};
  int64_t num_free_[kNumSizeClasses] = {};  // where memory is only counted
};

}  // namespace graphffi_standalone

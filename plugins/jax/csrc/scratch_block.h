// SPDX-License-Identifier: Apache-2.0
// Tensors in memory that is there only during a call.
#pragma once

#include <dlpack/dlpack.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace graphffi_jax {

/// A block of scratch memory. The kernel and the scope that made it both release it; the second one
/// deletes it.
struct ScratchBlock {
  DLManagedTensorVersioned managed;
  ScratchBlock* next;  ///< the scope's list, or the pool's
  size_t num_bytes;
  int64_t offset;  ///< in a workspace
  bool is_heap;    ///< the data is from the heap, because a workspace was full

  /// Compact, like `prototype`, at `data`; from this thread's pool. \throws std::bad_alloc
  static ScratchBlock* Make(const DLTensor& prototype, void* data, size_t num_bytes);
  /// The scope lets go of it, on the thread that made it. True if the kernel still holds it.
  bool Release();
  /// The kernel has let go of it.
  bool IsReleased() const { return released_.load(std::memory_order_acquire); }

 private:
  static constexpr int kInlineDims = 8;
  struct Pool;
  struct PoolOwner;
  static ScratchBlock* New();
  void ReleaseFromKernel();
  void Recycle();

  std::atomic<bool> released_;
  const Pool* home_;  // of the thread whose scope it is
  int64_t* opt_heap_dims_;
  int64_t inline_dims_[2 * kInlineDims];
};

}  // namespace graphffi_jax

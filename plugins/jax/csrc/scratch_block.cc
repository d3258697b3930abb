// SPDX-License-Identifier: Apache-2.0
#include "scratch_block.h"

#include <memory>

#include "env/allocation.h"

namespace graphffi_jax {

namespace {

constexpr int kPoolCapacity = 64;

}  // namespace

/// Blocks of this thread that both parties have let go of, kept for the next call.
struct ScratchBlock::Pool {
  ScratchBlock* head;
  int size;
  bool is_open;  ///< false before the first block, and again once the thread ends

  static thread_local Pool current;
};
thread_local ScratchBlock::Pool ScratchBlock::Pool::current{};

/// Frees the thread's pool when the thread ends.
struct ScratchBlock::PoolOwner {
  PoolOwner() { Pool::current.is_open = true; }
  ~PoolOwner() {
    Pool& pool = Pool::current;
    pool.is_open = false;
    while (pool.head != nullptr) {
      ScratchBlock* next = pool.head->next;
      delete pool.head;
      pool.head = next;
    }
  }
};

ScratchBlock* ScratchBlock::New() {
  static thread_local PoolOwner owner;
  (void)owner;
  return new ScratchBlock;
}

ScratchBlock* ScratchBlock::Make(const DLTensor& prototype, void* data, size_t num_bytes) {
  std::unique_ptr<int64_t[]> heap_dims;
  if (prototype.ndim > kInlineDims) {
    heap_dims.reset(new int64_t[2 * static_cast<size_t>(prototype.ndim)]);
  }
  Pool& pool = Pool::current;
  ScratchBlock* block = pool.head;
  if (block != nullptr) {
    pool.head = block->next;
    --pool.size;
  } else {
    block = New();
  }
  block->home_ = &pool;
  block->opt_heap_dims_ = heap_dims.release();
  block->num_bytes = num_bytes;
  block->next = nullptr;
  block->offset = 0;
  block->is_heap = false;
  block->released_.store(false, std::memory_order_relaxed);
  block->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  block->managed.manager_ctx = block;
  block->managed.deleter = [](DLManagedTensorVersioned* self) {
    static_cast<ScratchBlock*>(self->manager_ctx)->ReleaseFromKernel();
  };
  block->managed.flags = 0;
  int64_t* dims = block->opt_heap_dims_ != nullptr ? block->opt_heap_dims_ : block->inline_dims_;
  graphffi::DescribeAllocated(prototype, data, dims, &block->managed.dl_tensor);
  return block;
}

bool ScratchBlock::Release() {
  if (!IsReleased() && !released_.exchange(true, std::memory_order_acq_rel)) return true;
  Recycle();
  return false;
}

void ScratchBlock::ReleaseFromKernel() {
  // On the thread of the scope nobody else lets go at the same time.
  const bool is_home = &Pool::current == home_;
  if (is_home && !IsReleased()) return released_.store(true, std::memory_order_release);
  if (is_home || released_.exchange(true, std::memory_order_acq_rel)) Recycle();
}

void ScratchBlock::Recycle() {
  delete[] opt_heap_dims_;
  Pool& pool = Pool::current;
  if (pool.is_open && pool.size < kPoolCapacity) {
    next = pool.head;
    pool.head = this;
    ++pool.size;
  } else {
    delete this;
  }
}

}  // namespace graphffi_jax

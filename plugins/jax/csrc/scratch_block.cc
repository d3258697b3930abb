// SPDX-License-Identifier: Apache-2.0
#include "scratch_block.h"

#include <memory>
#include <new>

#include "callframe/allocation.h"

namespace graphffi {
namespace {

constexpr int kPoolCapacity = 64;

/// False once this thread's pool is gone; trivially destructible, so that it can be read then.
thread_local bool pool_alive = false;

}  // namespace

/// Blocks of this thread that both parties have let go of, kept for the next call.
struct ScratchBlock::Pool {
  ScratchBlock* head = nullptr;
  int size = 0;
  Pool() { pool_alive = true; }
  ~Pool() {
    pool_alive = false;
    while (head != nullptr) {
      ScratchBlock* next = head->next;
      delete head;
      head = next;
    }
  }
};

ScratchBlock::Pool& ScratchBlock::ThreadPool() {
  thread_local Pool pool;
  return pool;
}

ScratchBlock* ScratchBlock::Make(const DLTensor& prototype, void* data, size_t num_bytes) {
  std::unique_ptr<int64_t[]> heap_dims;
  if (prototype.ndim > kInlineDims) {
    heap_dims.reset(new int64_t[2 * static_cast<size_t>(prototype.ndim)]);
  }
  Pool& pool = ThreadPool();
  ScratchBlock* block = pool.head;
  if (block != nullptr) {
    pool.head = block->next;
    --pool.size;
  } else {
    block = new ScratchBlock;
  }
  block->opt_heap_dims_ = heap_dims.release();
  block->num_bytes = num_bytes;
  block->next = nullptr;
  block->offset = 0;
  block->is_heap = false;
  block->released_.store(false, std::memory_order_relaxed);
  block->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  block->managed.manager_ctx = block;
  block->managed.deleter = [](DLManagedTensorVersioned* self) {
    static_cast<ScratchBlock*>(self->manager_ctx)->Release();
  };
  block->managed.flags = 0;
  int64_t* dims = block->opt_heap_dims_ != nullptr ? block->opt_heap_dims_ : block->inline_dims_;
  DescribeAllocated(prototype, data, dims, &block->managed.dl_tensor);
  return block;
}

bool ScratchBlock::Release() {
  if (!released_.exchange(true, std::memory_order_acq_rel)) return true;
  delete[] opt_heap_dims_;
  if (pool_alive && ThreadPool().size < kPoolCapacity) {
    Pool& pool = ThreadPool();
    next = pool.head;
    pool.head = this;
    ++pool.size;
  } else {
    delete this;
  }
  return false;
}

}  // namespace graphffi

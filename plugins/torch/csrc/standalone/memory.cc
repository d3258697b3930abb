// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "call/error.h"

namespace graphffi_standalone {
namespace {

std::atomic<size_t> limit{size_t{256} << 20};

struct FreeLists {
  FreeBlock* opt_first[kNumSizeClasses];
  size_t bytes;
  bool is_watched;  // the lists are freed when the thread ends
  bool is_closed;   // it is ending
};
thread_local FreeLists lists;

/// Frees the lists of a thread that ends.
struct Closer {
  void Touch() {}
  ~Closer() {
    TrimMemory();
    lists.is_closed = true;
  }
};
thread_local Closer closer;

}  // namespace

void FailAllocation(size_t bytes) {
  throw graphffi::Error("MemoryError",
                        "graphffi: cannot allocate " + std::to_string(bytes) + " bytes");
}

void* TakeMemory(size_t bytes) {
  const SizeClass size = SizeClass::Of(bytes);
  if (size.index >= kNumSizeClasses) FailAllocation(bytes);
  if (FreeBlock* block = lists.opt_first[size.index]) {
    lists.opt_first[size.index] = block->opt_next;
    lists.bytes -= size.bytes;
    return block;
  }
  void* memory = std::aligned_alloc(64, size.bytes);
  if (memory == nullptr) FailAllocation(bytes);
  return memory;
}

void GiveMemory(void* memory, size_t bytes) {
  const SizeClass size = SizeClass::Of(bytes);
  if (lists.is_closed || lists.bytes + size.bytes > limit.load(std::memory_order_relaxed))
    return std::free(memory);
  if (!lists.is_watched) {
    closer.Touch();
    lists.is_watched = true;
  }
  auto* block = static_cast<FreeBlock*>(memory);
  block->opt_next = lists.opt_first[size.index];
  lists.opt_first[size.index] = block;
  lists.bytes += size.bytes;
}

void SetMemoryLimit(size_t bytes) { limit.store(bytes, std::memory_order_relaxed); }

void TrimMemory() {
  for (FreeBlock*& first : lists.opt_first) {
    while (first != nullptr) {
      FreeBlock* block = first;
      first = block->opt_next;
      std::free(block);
    }
  }
  lists.bytes = 0;
}

}  // namespace graphffi_standalone

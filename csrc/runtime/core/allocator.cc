// SPDX-License-Identifier: Apache-2.0
// The allocator that kernels may ask for. The runtime's own objects do not use it.
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "error.h"

namespace graphffi::runtime {
namespace {

/// Lies directly before the memory that is handed out; the last member is the ABI's.
struct BlockHeader {
  void* base;
  TVMFFIObjectAllocHeader abi;
};
static_assert(sizeof(BlockHeader) == 16);

void DeleteBlock(void* ptr) { std::free((static_cast<BlockHeader*>(ptr) - 1)->base); }

void* AllocateBlock(size_t size, size_t alignment, int32_t, void*) {
  size_t prefix = alignment > sizeof(BlockHeader) ? alignment : sizeof(BlockHeader);
  void* base = nullptr;
  if (size > PTRDIFF_MAX - prefix) return nullptr;
  if (posix_memalign(&base, prefix, prefix + size) != 0) return nullptr;
  char* memory = static_cast<char*>(base) + prefix;
  *(reinterpret_cast<BlockHeader*>(memory) - 1) = {base, {DeleteBlock}};
  return memory;
}

TVMFFICustomAllocator default_allocator = {AllocateBlock, nullptr};
std::atomic<TVMFFICustomAllocator*> current_allocator{&default_allocator};

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

TVMFFICustomAllocator* TVMFFIGetCustomAllocator() {
  return current_allocator.load(std::memory_order_acquire);
}

int TVMFFISetCustomAllocator(TVMFFICustomAllocator* allocator) {
  current_allocator.store(allocator == nullptr ? &default_allocator : allocator,
                          std::memory_order_release);
  return 0;
}

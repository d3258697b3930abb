// SPDX-License-Identifier: Apache-2.0
// The memory of graphs' tensors: free lists of a thread, so that a run finds what the last one had.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphffi_standalone {

/// A block's place among sizes: four of them for each power of two.
struct SizeClass {
  int32_t index;
  size_t bytes;

  static SizeClass Of(size_t bytes) {
    if (bytes <= 256) {
      const size_t lines = bytes == 0 ? 1 : (bytes + 63) / 64;
      return {static_cast<int32_t>(lines) - 1, 64 * lines};
    }
    const int exponent = 63 - __builtin_clzll(bytes - 1);
    const size_t quarter = (bytes - 1) >> (exponent - 2) & 3;
    return {(exponent - 8) * 4 + static_cast<int32_t>(quarter) + 4, (5 + quarter)
                                                                        << (exponent - 2)};
  }
};

constexpr int32_t kNumSizeClasses = 4 * (63 - 8) + 8;

struct FreeBlock {
  FreeBlock* opt_next;
};

/// \throws Error(MemoryError), always
[[noreturn]] void FailAllocation(size_t bytes);

/// At least `bytes` bytes, 64-byte aligned, of the thread's free lists or of the heap.
/// \throws Error(MemoryError)
void* TakeMemory(size_t bytes);

/// Gives back what TakeMemory gave for as many bytes, on any thread.
void GiveMemory(void* memory, size_t bytes);

/// How much each thread's lists of this library hold at most; 256 MiB unless it is set.
void SetMemoryLimit(size_t bytes);

/// Frees what this thread's lists hold.
void TrimMemory();

}  // namespace graphffi_standalone

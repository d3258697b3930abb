// SPDX-License-Identifier: Apache-2.0
// Parts of tensor allocators, and the allocator for tensors on the CPU.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <exception>

#include "call/error.h"

namespace graphffi {

/// Alignment of tensors' memory on the CPU, in bytes.
constexpr size_t kTensorAlignment = 64;

/// How an allocator tells its caller what went wrong.
using SetAllocationError = void (*)(void* error_context, const char* kind, const char* message);

/// The env's allocator where no framework brings its own: one 64-byte aligned heap block per
/// tensor, which lives as long as the tensor does.
int AllocateOnHeap(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                   SetAllocationError set_error);

/// The data of a compact tensor, in bytes. \throws Error(ValueError) for a shape that no memory can
/// hold.
size_t NumBytes(const DLTensor& prototype);

/// Completes `tensor`: like `prototype`, compact, at `data`; `dims` has room for 2 * ndim.
void DescribeAllocated(const DLTensor& prototype, void* data, int64_t* dims, DLTensor* tensor);

/// Runs `allocate`, turning what it throws into the caller's error.
template <typename Allocate>
int RunAllocator(void* error_context, SetAllocationError set_error, Allocate&& allocate) {
  try {
    allocate();
    return 0;
  } catch (const Error& error) {
    set_error(error_context, error.kind().c_str(), error.message().c_str());
  } catch (const std::exception& error) {
    set_error(error_context, "InternalError", error.what());
  }
  return -1;
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// The process's tensor allocator where plugins provide it: one for all of them, so that the calls
// of each find it set.
#pragma once

#include <tvm/ffi/extra/c_env_api.h>

#include <atomic>

#include "env/allocation.h"

namespace graphffi {

/// Asks the framework whose call the thread is in, if that can tell, or else the one that can't.
struct SharedAllocator {
  /// *result as of an allocator. False, and nothing was done: the thread is in no call of its.
  using TryAllocate = bool (*)(DLTensor* prototype, DLManagedTensorVersioned** out,
                               void* error_context, SetAllocationError set_error, int* result);

  /// The process's allocator, unless it had another one before.
  DLPackManagedTensorAllocator allocate;
  std::atomic<TryAllocate> opt_in_call{nullptr};
  /// Where nobody's call is known; NULL is the heap.
  std::atomic<DLPackManagedTensorAllocator> opt_otherwise{nullptr};

  /// The one of the process, which is made now if need be. Lives as long as that. \throws Error
  static SharedAllocator& Get();
};

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
#include "env/shared_allocator.h"

#include <string_view>

#include "call/global_function.h"
#include "env/env_scope.h"

namespace graphffi {
namespace {

/// Gives the process's to the plugins, which have each a copy of this code.
constexpr std::string_view kName = "graphffi.shared_allocator_1";

SharedAllocator* made_here = nullptr;

int Allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
             SetAllocationError set_error) {
  const SharedAllocator& shared = *made_here;
  int result = 0;
  const auto in_call = shared.opt_in_call.load(std::memory_order_acquire);
  if (in_call != nullptr && in_call(prototype, out, error_context, set_error, &result)) {
    return result;
  }
  const auto otherwise = shared.opt_otherwise.load(std::memory_order_acquire);
  const auto allocate = otherwise == nullptr ? &AllocateOnHeap : otherwise;
  return allocate(prototype, out, error_context, set_error);
}

}  // namespace

SharedAllocator& SharedAllocator::Get() {
  if (void* shared = FindShared(kName)) return *static_cast<SharedAllocator*>(shared);
  made_here = new SharedAllocator{&Allocate};
  void* const shared = Share(kName, made_here);
  if (shared == made_here) AllocatorScope::ProvideForProcess(&Allocate);
  return *static_cast<SharedAllocator*>(shared);
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
#include "env/shared_allocator.h"

#include <string_view>

#include "callframe/error.h"
#include "callframe/global_function.h"
#include "callframe/value.h"
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

int GetShared(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  *result = MakePointer(made_here);
  return 0;
}

SharedAllocator* Find() {
  const TVMFFIObjectHandle function = FindGlobalUnlocked(kName);
  if (function == nullptr) return nullptr;
  TVMFFIAny shared{};
  const int rc = TVMFFIFunctionCall(function, nullptr, 0, &shared);
  TVMFFIObjectDecRef(function);
  if (rc != 0) throw Error::TakeRaised(rc);
  return static_cast<SharedAllocator*>(shared.v_ptr);
}

void Make() {
  made_here = new SharedAllocator{&Allocate};
  const TVMFFIByteArray name = {kName.data(), kName.size()};
  TVMFFIObjectHandle function = nullptr;
  int rc = TVMFFIFunctionCreate(nullptr, &GetShared, nullptr, &function);
  if (rc == 0) {
    rc = TVMFFIFunctionSetGlobal(&name, function, /*allow_override=*/0);
    TVMFFIObjectDecRef(function);
  }
  if (rc != 0) throw Error::TakeRaised(rc);
  AllocatorScope::ProvideForProcess(&Allocate);
}

}  // namespace

SharedAllocator& SharedAllocator::Get() {
  SharedAllocator* shared = Find();
  if (shared != nullptr) return *shared;
  Make();
  return *made_here;
}

}  // namespace graphffi

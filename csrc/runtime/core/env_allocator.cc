// SPDX-License-Identifier: Apache-2.0
// The framework's tensor allocator: the thread's, or else the process's.
#include <tvm/ffi/extra/c_env_api.h>

#include <atomic>

#include "error.h"
#include "tensor.h"

namespace graphffi::runtime {
namespace {

thread_local DLPackManagedTensorAllocator thread_allocator = nullptr;
std::atomic<DLPackManagedTensorAllocator> process_allocator{nullptr};

void RaiseAllocationError(void*, const char* kind, const char* message) {
  SetRaised(kind, message);
}

ObjectPtr<> Allocate(DLTensor* prototype) {
  DLPackManagedTensorAllocator allocator = TVMFFIEnvGetDLPackManagedTensorAllocator();
  if (allocator == nullptr) {
    Throw("RuntimeError",
          "graphffi: no tensor allocator is set for this thread or process; call the kernel "
          "through a framework that provides one");
  }
  DLManagedTensorVersioned* managed = nullptr;
  CheckForeign(allocator(prototype, &managed, nullptr, RaiseAllocationError));
  if (managed == nullptr) {
    Throw("RuntimeError", "graphffi: the tensor allocator: expected a tensor, got NULL");
  }
  try {
    return MakeTensor(managed, TensorRequirements{});
  } catch (...) {
    if (managed->deleter != nullptr) managed->deleter(managed);
    throw;
  }
}

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIEnvSetDLPackManagedTensorAllocator(
    DLPackManagedTensorAllocator allocator, int write_to_global_context,
    DLPackManagedTensorAllocator* opt_out_original_allocator) {
  if (opt_out_original_allocator != nullptr) *opt_out_original_allocator = thread_allocator;
  thread_allocator = allocator;
  if (write_to_global_context != 0) process_allocator.store(allocator, std::memory_order_release);
  return 0;
}

DLPackManagedTensorAllocator TVMFFIEnvGetDLPackManagedTensorAllocator() {
  if (thread_allocator != nullptr) return thread_allocator;
  return process_allocator.load(std::memory_order_acquire);
}

int TVMFFIEnvTensorAlloc(DLTensor* prototype, TVMFFIObjectHandle* out) {
  return Guard([&] { *out = Allocate(prototype).Release(); });
}

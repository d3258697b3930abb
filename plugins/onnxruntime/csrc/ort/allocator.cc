// SPDX-License-Identifier: Apache-2.0
#include "ort/allocator.h"

#include <string>
#include <vector>

#include "call/error.h"
#include "ort/status.h"

namespace graphffi_onnxruntime {

using graphffi::Error;

thread_local const std::shared_ptr<SessionAllocator>* SessionMemoryScope::current_ = nullptr;

namespace {

/// A tensor that a kernel allocated.
struct Block {
  DLManagedTensorVersioned managed{};
  std::shared_ptr<SessionAllocator> allocator;
  std::vector<int64_t> dims;

  explicit Block(const DLTensor& prototype) : dims(2 * static_cast<size_t>(prototype.ndim)) {}
  ~Block() {
    if (void* data = managed.dl_tensor.data) allocator->Free(data);
  }
};

}  // namespace

std::shared_ptr<SessionAllocator> SessionAllocator::Of(const ort::Api* api,
                                                       const ort::KernelInfo* info) {
  ort::Allocator* owned = nullptr;
  Call<ort::GetNodeAllocator>(api, info, 0, &owned);
  return std::shared_ptr<SessionAllocator>(new SessionAllocator(api, owned));
}

SessionAllocator::~SessionAllocator() { ort::ReleaseAllocator::Call(api_, owned_); }

void* SessionAllocator::Allocate(size_t num_bytes) {
  void* data = nullptr;
  if (num_bytes == 0) return nullptr;
  if (ort::Status* status = ort::AllocatorAlloc::Call(api_, owned_, num_bytes, &data)) {
    const std::string text = ort::GetErrorMessage::Call(api_, status);
    ort::ReleaseStatus::Call(api_, status);
    throw Error("MemoryError",
                "graphffi: cannot allocate " + std::to_string(num_bytes) + " bytes: " + text);
  }
  return data;
}

void SessionAllocator::Free(void* data) {
  if (ort::Status* status = ort::AllocatorFree::Call(api_, owned_, data)) {
    ort::ReleaseStatus::Call(api_, status);
  }
}

int AllocateInSession(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                      graphffi::SetAllocationError set_error) {
  return graphffi::RunAllocator(error_context, set_error, [&] {
    const auto* opt_allocator = SessionMemoryScope::current_;
    if (opt_allocator == nullptr) {
      throw Error("RuntimeError",
                  "graphffi: memory of ONNX Runtime is there only during a call of a node");
    }
    auto block = std::make_unique<Block>(*prototype);
    block->allocator = *opt_allocator;
    void* data = block->allocator->Allocate(graphffi::NumBytes(*prototype));
    graphffi::DescribeAllocated(*prototype, data, block->dims.data(), &block->managed.dl_tensor);
    block->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    block->managed.manager_ctx = block.get();
    block->managed.deleter = [](DLManagedTensorVersioned* managed) {
      delete static_cast<Block*>(managed->manager_ctx);
    };
    *out = &block.release()->managed;
  });
}

}  // namespace graphffi_onnxruntime

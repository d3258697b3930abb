// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

#include <atomic>
#include <memory>

#include "callframe/allocation.h"
#include "callframe/error.h"
#include "xla_api.h"

namespace graphffi {
namespace {

constexpr size_t kXlaAlignment = 16;  // XLA refuses to promise more, and gives 256 on GPUs

thread_local ScratchScope* current_scope = nullptr;

}  // namespace

/// A tensor in scratch memory. Two parties let go of it, the kernel and the scope; the second one
/// deletes it.
struct ScratchBlock {
  DLManagedTensorVersioned managed{};
  std::unique_ptr<int64_t[]> dims;
  size_t num_bytes = 0;
  std::atomic<bool> released{false};

  /// True if the other party still holds it.
  bool Release() {
    if (!released.exchange(true, std::memory_order_acq_rel)) return true;
    delete this;
    return false;
  }
};

int RefuseUnderCapture(DLTensor*, DLManagedTensorVersioned**, void* error_context,
                       void (*set_error)(void*, const char*, const char*)) {
  set_error(error_context, "RuntimeError",
            "graphffi: a kernel that is recorded into a command buffer can't allocate tensors");
  return -1;
}

int AllocateScratch(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                    void (*set_error)(void*, const char*, const char*)) {
  return RunAllocator(error_context, set_error, [&] {
    if (current_scope == nullptr) {
      throw Error("RuntimeError", "graphffi: scratch memory is there only during a call from XLA");
    }
    *out = &current_scope->Allocate(*prototype)->managed;
  });
}

ScratchScope::ScratchScope(const xla::CallFrame& call) : call_(call), outer_(current_scope) {
  current_scope = this;
}

ScratchScope::~ScratchScope() {
  Close();
  current_scope = outer_;
}

ScratchBlock* ScratchScope::Allocate(const DLTensor& prototype) {
  auto block = std::make_unique<ScratchBlock>();
  block->num_bytes = NumBytes(prototype);
  block->dims = std::make_unique<int64_t[]>(2 * static_cast<size_t>(prototype.ndim));
  xla::MemoryAllocateArgs args{};
  args.struct_size = sizeof(args);
  args.context = call_.context;
  args.size = block->num_bytes;
  args.alignment = kXlaAlignment;
  blocks_.reserve(blocks_.size() + 1);
  if (block->num_bytes != 0) {
    if (xla::Status* status = call_.api->memory_allocate(&args)) {
      throw Error("MemoryError", "graphffi: cannot allocate " + std::to_string(args.size) +
                                     " bytes: " + xla::TakeMessage(call_.api, status));
    }
  }
  block->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  block->managed.manager_ctx = block.get();
  block->managed.deleter = [](DLManagedTensorVersioned* self) {
    static_cast<ScratchBlock*>(self->manager_ctx)->Release();
  };
  DescribeAllocated(prototype, args.data, block->dims.get(), &block->managed.dl_tensor);
  blocks_.push_back(block.get());
  return block.release();
}

int ScratchScope::Close() {
  int held = 0;
  for (ScratchBlock* block : blocks_) {
    xla::MemoryFreeArgs args{};
    args.struct_size = sizeof(args);
    args.context = call_.context;
    args.size = block->num_bytes;
    args.data = block->managed.dl_tensor.data;
    if (args.data != nullptr) {
      if (xla::Status* status = call_.api->memory_free(&args)) xla::TakeMessage(call_.api, status);
    }
    held += block->Release() ? 1 : 0;
  }
  blocks_.clear();
  return held;
}

}  // namespace graphffi

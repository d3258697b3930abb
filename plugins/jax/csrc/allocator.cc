// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

#include <string>

#include "call/error.h"
#include "xla_api.h"

namespace graphffi_jax {

using graphffi::Error;
using graphffi::SetAllocationError;

namespace {

constexpr size_t kXlaAlignment = 16;  // XLA refuses to promise more, and gives 256 on GPUs

thread_local ScratchScope* current_scope = nullptr;

void Free(const xla::Call& call, void* data, size_t num_bytes) {
  if (data == nullptr) return;
  xla::MemoryFreeArgs args{};
  args.struct_size = sizeof(args);
  args.context = call.context;
  args.size = num_bytes;
  args.data = data;
  if (xla::Status* status = call.api->memory_free(&args)) xla::TakeMessage(call.api, status);
}

}  // namespace

int RefuseUnderCapture(DLTensor*, DLManagedTensorVersioned**, void* error_context,
                       SetAllocationError set_error) {
  set_error(error_context, "RuntimeError",
            "graphffi: a kernel that is recorded into a command buffer can't allocate tensors; "
            "declare workspace=");
  return -1;
}

int AllocateScratch(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                    SetAllocationError set_error) {
  return graphffi::RunAllocator(error_context, set_error, [&] {
    if (current_scope == nullptr) {
      throw Error("RuntimeError", "graphffi: scratch memory is there only during a call from XLA");
    }
    *out = &current_scope->Allocate(*prototype)->managed;
  });
}

ScratchScope::ScratchScope(const xla::Call& call) : call_(call), outer_(current_scope) {
  current_scope = this;
}

ScratchScope::~ScratchScope() {
  Close();
  current_scope = outer_;
}

ScratchBlock* ScratchScope::Allocate(const DLTensor& prototype) {
  xla::MemoryAllocateArgs args{};
  args.struct_size = sizeof(args);
  args.context = call_.context;
  args.size = graphffi::NumBytes(prototype);
  args.alignment = kXlaAlignment;
  if (args.size != 0) {
    if (xla::Status* status = call_.api->memory_allocate(&args)) {
      throw Error("MemoryError", "graphffi: cannot allocate " + std::to_string(args.size) +
                                     " bytes: " + xla::TakeMessage(call_.api, status));
    }
  }
  try {
    ScratchBlock* block = ScratchBlock::Make(prototype, args.data, args.size);
    block->next = blocks_;
    blocks_ = block;
    return block;
  } catch (...) {
    Free(call_, args.data, args.size);
    throw;
  }
}

int ScratchScope::Close() {
  int held = 0;
  while (blocks_ != nullptr) {
    ScratchBlock* block = blocks_;
    blocks_ = block->next;
    Free(call_, block->managed.dl_tensor.data, block->num_bytes);
    held += block->Release() ? 1 : 0;
  }
  return held;
}

}  // namespace graphffi_jax

// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>

#include "callframe/call_frame.h"
#include "callframe/error.h"
#include "xla_api.h"

namespace graphffi {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kXlaAlignment = 16;  // XLA refuses to promise more, and gives 256 on GPUs
constexpr DLPackVersion kVersion = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};

size_t RoundUp(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

/// \throws Error(ValueError) for a shape that no memory can hold.
size_t NumBytes(const DLTensor& prototype) {
  constexpr int64_t kLimit = int64_t{1} << 56;
  int64_t bits = int64_t{prototype.dtype.bits} * prototype.dtype.lanes;
  bool empty = false;
  for (int32_t i = 0; i < prototype.ndim; ++i) {
    int64_t dim = prototype.shape[i];
    if (dim < 0 || __builtin_mul_overflow(bits, std::max<int64_t>(dim, 1), &bits) ||
        bits > kLimit) {
      throw Error("ValueError",
                  "graphffi: cannot allocate a tensor with dimension " + std::to_string(dim));
    }
    empty = empty || dim == 0;
  }
  return empty ? 0 : static_cast<size_t>(bits + 7) / 8;
}

/// Completes `tensor`, whose shape and strides live in `dims` (room for 2 * ndim).
void Describe(const DLTensor& prototype, void* data, int64_t* dims, DLTensor* tensor) {
  *tensor = prototype;
  tensor->data = data;
  tensor->byte_offset = 0;
  tensor->shape = dims;
  tensor->strides = dims + prototype.ndim;
  std::copy_n(prototype.shape, prototype.ndim, tensor->shape);
  FillCompactStrides(tensor->shape, prototype.ndim, tensor->strides);
}

void FreeHeapBlock(DLManagedTensorVersioned* tensor) { std::free(tensor); }

/// One block of memory: the managed tensor, its dims, then the data.
DLManagedTensorVersioned* NewHeapBlock(const DLTensor& prototype) {
  size_t header = RoundUp(sizeof(DLManagedTensorVersioned) + 2 * prototype.ndim * sizeof(int64_t));
  size_t num_bytes = NumBytes(prototype);
  void* block = std::aligned_alloc(kAlignment, header + RoundUp(std::max<size_t>(num_bytes, 1)));
  if (block == nullptr) {
    throw Error("MemoryError", "graphffi: cannot allocate " + std::to_string(num_bytes) + " bytes");
  }
  auto* managed = new (block) DLManagedTensorVersioned{};
  managed->version = kVersion;
  managed->deleter = &FreeHeapBlock;
  Describe(prototype, static_cast<char*>(block) + header, reinterpret_cast<int64_t*>(managed + 1),
           &managed->dl_tensor);
  return managed;
}

/// Runs `allocate`, turning what it throws into the caller's error.
template <typename Allocate>
int Guarded(void* error_context, void (*set_error)(void*, const char*, const char*),
            Allocate&& allocate) {
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

int AllocateOnHeap(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                   void (*set_error)(void*, const char*, const char*)) {
  return Guarded(error_context, set_error, [&] {
    if (prototype->device.device_type != kDLCPU) {
      throw Error("ValueError", "graphffi: expected a tensor on cpu, got device type " +
                                    std::to_string(prototype->device.device_type));
    }
    *out = NewHeapBlock(*prototype);
  });
}

int RefuseUnderCapture(DLTensor*, DLManagedTensorVersioned**, void* error_context,
                       void (*set_error)(void*, const char*, const char*)) {
  set_error(error_context, "RuntimeError",
            "graphffi: a kernel that is recorded into a command buffer can't allocate tensors");
  return -1;
}

int AllocateScratch(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                    void (*set_error)(void*, const char*, const char*)) {
  return Guarded(error_context, set_error, [&] {
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
  block->managed.version = kVersion;
  block->managed.manager_ctx = block.get();
  block->managed.deleter = [](DLManagedTensorVersioned* self) {
    static_cast<ScratchBlock*>(self->manager_ctx)->Release();
  };
  Describe(prototype, args.data, block->dims.get(), &block->managed.dl_tensor);
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

// SPDX-License-Identifier: Apache-2.0
#include "tensor.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <vector>

#include "call/call_frame.h"
#include "call/error.h"
#include "call/value.h"
#include "device.h"
#include "memory.h"
#include "workspace.h"

namespace graphffi_standalone {
namespace {

size_t RoundUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A view whose strides are there.
struct WithStrides {
  explicit WithStrides(const DLTensor& tensor) : view(tensor) {
    if (view.strides != nullptr) return;
    strides.resize(static_cast<size_t>(view.ndim));
    graphffi::FillCompactStrides(view.shape, view.ndim, strides.data());
    view.strides = strides.data();
  }
  DLTensor view;
  std::vector<int64_t> strides;
};

/// Copies a row whose elements are as many bytes apart as is said.
template <size_t kBytes>
void CopyRow(int64_t count, const char* source, int64_t read, char* target, int64_t written) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target + i * written, source + i * read, kBytes);
  }
}

void CopyRow(int64_t count, const char* source, int64_t read, char* target, int64_t written,
             size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (read == size && written == size) {
    std::memcpy(target, source, static_cast<size_t>(count) * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      return CopyRow<1>(count, source, read, target, written);
    case 2:
      return CopyRow<2>(count, source, read, target, written);
    case 4:
      return CopyRow<4>(count, source, read, target, written);
    case 8:
      return CopyRow<8>(count, source, read, target, written);
    default:
      return CopyRow<16>(count, source, read, target, written);  // complex128
  }
}

/// Calls `use` for each row of the tensors, from dimension `dim` on, with its elements as pieces.
template <typename Use>
void ForEachRow(const DLTensor& from, const DLTensor& to, int32_t dim, const char* source,
                char* target, size_t bytes, const Use& use) {
  if (from.ndim == 0) return use(Pieces{1, bytes, target, 0, source, 0});
  const auto size = static_cast<int64_t>(bytes);
  const int64_t count = from.shape[dim];
  const int64_t read = from.strides[dim] * size, written = to.strides[dim] * size;
  if (dim == from.ndim - 1) return use(Pieces{count, bytes, target, written, source, read});
  for (int64_t i = 0; i < count; ++i) {
    ForEachRow(from, to, dim + 1, source + i * read, target + i * written, bytes, use);
  }
}

/// The GPU that has one of the tensors, else the CPU.
DLDevice DeviceOf(const DLTensor& from, const DLTensor& to) {
  return to.device.device_type != kDLCPU ? to.device : from.device;
}

void CopyPieces(DLDevice device, const Pieces& pieces) {
  if (device.device_type != kDLCPU) return kOptDeviceKind->copy(device.device_id, pieces);
  CopyRow(pieces.count, pieces.from, pieces.read, pieces.to, pieces.written, pieces.bytes);
}

/// Waits until data copied between the CPU and a GPU has arrived: whoever has the memory on the CPU
/// may read it, or write the next data there. From pinned memory, the driver itself does not wait.
void FinishCopy(const DLTensor& from, const DLTensor& to) {
  if (from.device.device_type == to.device.device_type) return;
  kOptDeviceKind->wait(DeviceOf(from, to).device_id);
}

struct Memory {
  const char *begin, *end;
};

/// The memory from a tensor's first byte to its last one, also where strides are negative.
Memory MemoryOf(const DLTensor& tensor) {
  int64_t first = 0, last = 0, compact = 1;  // elements from data()
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0) return {nullptr, nullptr};
    const int64_t stride = tensor.strides == nullptr ? compact : tensor.strides[i];
    const int64_t extent = (tensor.shape[i] - 1) * stride;
    (extent < 0 ? first : last) += extent;
    compact *= tensor.shape[i];
  }
  const auto bytes = static_cast<int64_t>(ElementBytes(tensor.dtype));
  return {DataOf(tensor) + first * bytes, DataOf(tensor) + (last + 1) * bytes};
}

}  // namespace

size_t SpanBytes(const DLTensor& tensor) {
  size_t elements = 1, bytes = 0;  // up to the last one, or all
  bool is_too_large = false;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return 0;
    const auto size = static_cast<size_t>(tensor.shape[i]);
    if (tensor.strides == nullptr) {
      is_too_large |= __builtin_mul_overflow(elements, size, &elements);
    } else {
      size_t extent = 0;
      is_too_large |= __builtin_mul_overflow(size - 1, tensor.strides[i], &extent) ||
                      __builtin_add_overflow(elements, extent, &elements);
    }
  }
  is_too_large |= __builtin_mul_overflow(elements, ElementBytes(tensor.dtype), &bytes);
  return is_too_large ? kTooLarge : bytes;
}

Tensor* Tensor::Make(const DLTensor& prototype, size_t data_bytes) {
  // A tensor without dimensions gets one where it becomes one without elements.
  const auto room = static_cast<size_t>(std::max(prototype.ndim, 1));
  const size_t header = RoundUp(sizeof(Tensor) + 2 * room * sizeof(int64_t));
  const size_t bytes = header + data_bytes;
  Workspace* opt_workspace = Workspace::OptCurrent();
  void* block = opt_workspace == nullptr ? TakeMemory(bytes) : opt_workspace->Take(bytes);
  auto* self = static_cast<Tensor*>(block);
  self->header_ = {};
  self->header_.combined_ref_count = 1 | (uint64_t{1} << 32);
  self->header_.type_index = kTVMFFITensor;
  self->header_.deleter = &Delete;
  auto* dims = reinterpret_cast<int64_t*>(self + 1);
  graphffi::CopyDims(prototype, dims);
  self->tensor_ = {static_cast<char*>(block) + header,
                   prototype.device,
                   prototype.ndim,
                   prototype.dtype,
                   dims,
                   dims + prototype.ndim,
                   0};
  self->opt_owner_ = nullptr;
  self->bytes_ = bytes;
  self->workspace_ = opt_workspace == nullptr ? 0 : opt_workspace->id();
  self->has_memory_ = true;
  self->ordinal_ = -1;
  return self;
}

Tensor* Tensor::Allocate(const DLTensor& prototype) {
  const size_t span = SpanBytes(prototype);
  if (prototype.device.device_type == kDLCPU) return Make(prototype, span);
  auto bytes = static_cast<int64_t>(span);
  ObjectRef memory(
      AllocateInEnv({nullptr, prototype.device, 1, {kDLUInt, 8, 1}, &bytes, nullptr, 0}));
  Tensor* self = Make(prototype, 0);
  self->tensor_.data = DataOf(*TVMFFITensorGetDLTensorPtr(memory.get()));
  self->opt_owner_ = memory.release();
  return self;
}

Tensor* Tensor::View(void* data, const DLTensor& prototype, TVMFFIObjectHandle opt_owner) {
  Tensor* self = Make(prototype, 0);
  if (opt_owner != nullptr) TVMFFIObjectIncRef(opt_owner);
  self->opt_owner_ = opt_owner;
  self->has_memory_ = false;
  self->tensor_.data = data;
  return self;
}

bool Tensor::is_lent() const {
  if (opt_owner_ == nullptr) return !has_memory_;
  const Tensor* owner = OptOf(opt_owner_);
  return owner != nullptr && owner->is_lent();
}

void Tensor::Delete(void* handle, int flags) {
  auto* self = static_cast<Tensor*>(handle);
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0 && self->opt_owner_ != nullptr) {
    TVMFFIObjectDecRef(self->opt_owner_);
  }
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) == 0) return;
  if (self->workspace_ == 0) return GiveMemory(self, self->bytes_);
  Workspace* opt_workspace = Workspace::OptCurrent();
  if (opt_workspace != nullptr && opt_workspace->id() == self->workspace_) {
    opt_workspace->Give(self, self->bytes_);
  }
}

TVMFFIObjectHandle AllocateInEnv(const DLTensor& prototype) {
  DLTensor compact = prototype;
  compact.data = nullptr;
  compact.strides = nullptr;
  compact.byte_offset = 0;
  TVMFFIObjectHandle tensor = nullptr;
  graphffi::CheckRc(TVMFFIEnvTensorAlloc(&compact, &tensor));
  return tensor;
}

void CopyElements(const DLTensor& from, const DLTensor& to) {
  const size_t bytes = graphffi::BytesOf(from);
  if (bytes == 0) return;
  if (graphffi::IsCompact(from) && graphffi::IsCompact(to)) return CopyBytes(from, to, bytes);
  const DLDevice device = DeviceOf(from, to);
  const auto copy = [&](const Pieces& pieces) { CopyPieces(device, pieces); };
  ForEachRow(WithStrides(from).view, WithStrides(to).view, 0, DataOf(from), DataOf(to),
             ElementBytes(from.dtype), copy);
  FinishCopy(from, to);
}

void CopyBytes(const DLTensor& from, const DLTensor& to, size_t bytes) {
  const DLDevice device = DeviceOf(from, to);
  if (device.device_type == kDLCPU) {
    std::memcpy(DataOf(to), DataOf(from), bytes);
    return;
  }
  CopyPieces(device, {1, bytes, DataOf(to), 0, DataOf(from), 0});
  FinishCopy(from, to);
}

void ClearElements(const DLTensor& tensor) {
  const size_t bytes = graphffi::BytesOf(tensor);
  if (bytes == 0) return;
  const auto clear = [&](const Pieces& pieces) {
    if (tensor.device.device_type != kDLCPU) {
      return kOptDeviceKind->clear(tensor.device.device_id, pieces);
    }
    for (int64_t i = 0; i < pieces.count; ++i) {
      std::memset(pieces.to + i * pieces.written, 0, pieces.bytes);
    }
  };
  if (graphffi::IsCompact(tensor)) return clear({1, bytes, DataOf(tensor), 0, nullptr, 0});
  ForEachRow(tensor, tensor, 0, DataOf(tensor), DataOf(tensor), ElementBytes(tensor.dtype), clear);
}

Tensor* CopyAs(const DLTensor& prototype, const DLTensor& tensor) {
  Tensor* copy = Tensor::Allocate(prototype);
  ObjectRef owner(copy->handle());
  CopyElements(tensor, copy->view());
  owner.release();
  return copy;
}

Tensor* CompactCopy(const DLTensor& tensor) {
  DLTensor compact = tensor;
  compact.strides = nullptr;
  return CopyAs(compact, tensor);
}

bool AreAlike(const DLTensor& a, const DLTensor& b) {
  return a.dtype == b.dtype && std::equal(a.shape, a.shape + a.ndim, b.shape, b.shape + b.ndim);
}

bool Overlap(const DLTensor& a, const DLTensor& b) {
  const Memory in_a = MemoryOf(a), in_b = MemoryOf(b);
  return in_a.begin < in_b.end && in_b.begin < in_a.end;
}

}  // namespace graphffi_standalone

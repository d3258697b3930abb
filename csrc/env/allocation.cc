// SPDX-License-Identifier: Apache-2.0
#include "env/allocation.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "call/call_frame.h"
#include "call/describe_tensor.h"

namespace graphffi {

namespace {

size_t RoundUp(size_t size) {
  return (size + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

void FreeHeapBlock(DLManagedTensorVersioned* tensor) { std::free(tensor); }

/// One block of memory: the managed tensor, its dims, then the data.
DLManagedTensorVersioned* NewHeapBlock(const DLTensor& prototype) {
  const size_t dims_bytes = 2 * static_cast<size_t>(prototype.ndim) * sizeof(int64_t);
  const size_t header = RoundUp(sizeof(DLManagedTensorVersioned) + dims_bytes);
  const size_t num_bytes = NumBytes(prototype);
  void* block =
      std::aligned_alloc(kTensorAlignment, header + RoundUp(std::max<size_t>(num_bytes, 1)));
  if (block == nullptr) {
    throw Error("MemoryError", "graphffi: cannot allocate " + std::to_string(num_bytes) + " bytes");
  }
  auto* managed = new (block) DLManagedTensorVersioned{};
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->deleter = &FreeHeapBlock;
  DescribeAllocated(prototype, static_cast<char*>(block) + header,
                    reinterpret_cast<int64_t*>(managed + 1), &managed->dl_tensor);
  return managed;
}

}  // namespace

size_t NumBytes(const DLTensor& prototype) {
  constexpr int64_t kLimit = int64_t{1} << 56;
  int64_t bits = int64_t{prototype.dtype.bits} * prototype.dtype.lanes;
  bool empty = false;
  for (int32_t i = 0; i < prototype.ndim; ++i) {
    const int64_t dim = prototype.shape[i];
    if (dim < 0 || __builtin_mul_overflow(bits, std::max<int64_t>(dim, 1), &bits) ||
        bits > kLimit) {
      throw Error("ValueError",
                  "graphffi: cannot allocate a tensor with dimension " + std::to_string(dim));
    }
    empty = empty || dim == 0;
  }
  return empty ? 0 : static_cast<size_t>(bits + 7) / 8;
}

void DescribeAllocated(const DLTensor& prototype, void* data, int64_t* dims, DLTensor* tensor) {
  *tensor = prototype;
  tensor->data = data;
  tensor->byte_offset = 0;
  tensor->shape = dims;
  tensor->strides = dims + prototype.ndim;
  std::copy_n(prototype.shape, prototype.ndim, tensor->shape);
  FillCompactStrides(tensor->shape, prototype.ndim, tensor->strides);
}

int AllocateOnHeap(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                   SetAllocationError set_error) {
  return RunAllocator(error_context, set_error, [&] {
    if (prototype->device.device_type != kDLCPU) {
      throw Error("ValueError", "graphffi: expected a tensor on cpu, got one on " +
                                    DeviceToName(prototype->device));
    }
    *out = NewHeapBlock(*prototype);
  });
}

}  // namespace graphffi

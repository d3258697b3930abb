// SPDX-License-Identifier: Apache-2.0
// XLA's buffers as DLTensors, on the stack of one call.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "callframe/call_frame.h"
#include "callframe/value.h"
#include "dtype.h"
#include "xla_ffi.h"

namespace graphffi {

/// Compact views of all operands and results of a call. Up to kInline tensors and kInlineDims
/// dimensions in all cost no allocation.
class Tensors {
 public:
  static constexpr int64_t kInline = 16, kInlineDims = 64;

  /// Shapes are borrowed from `call`. \throws Error(TypeError) for what is no array (a token).
  Tensors(const xla::CallFrame& call, DLDevice device) {
    const bool fits = call.args.size + call.rets.size <= kInline &&
                      Fill(call, device, {inline_tensors_, inline_values_, inline_strides_},
                           inline_strides_ + kInlineDims);
    if (__builtin_expect(!fits, 0)) FillOnHeap(call, device);
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  /// Values of kind DLTensorPtr: the operands, then the results.
  const TVMFFIAny* values() const { return values_; }

 private:
  /// Where the next tensor goes.
  struct Room {
    DLTensor* tensor;
    TVMFFIAny* value;
    int64_t* strides;
  };

  /// What does not fit inline.
  struct Heap {
    ~Heap();
    std::unique_ptr<DLTensor[]> tensors;
    std::unique_ptr<TVMFFIAny[]> values;
    std::unique_ptr<int64_t[]> strides;
  };

  /// False where the strides would not end before `strides_end`.
  static bool Fill(const xla::CallFrame& call, DLDevice device, Room room,
                   const int64_t* strides_end) {
    return Add(call, call.args, device, strides_end, &room) &&
           Add(call, call.rets, device, strides_end, &room);
  }
  void FillOnHeap(const xla::CallFrame& call, DLDevice device);
  [[noreturn]] static void FailNoArray(const xla::CallFrame& call);

  static constexpr int64_t kOneStride = 1;  // of all that have at most one

  static bool Add(const xla::CallFrame& call, const xla::Buffers& buffers, DLDevice device,
                  const int64_t* strides_end, Room* room) {
    Room next = *room;
    const xla::BufferTag* tag = buffers.tags;
    void* const* end = buffers.buffers + buffers.size;
    for (void* const* pointer = buffers.buffers; pointer != end; ++pointer, ++tag) {
      if (*tag != xla::kBuffer) FailNoArray(call);
      auto& buffer = *static_cast<const xla::Buffer*>(*pointer);
      const PackedDataType dtype = ToPackedDLPack(buffer.dtype);
      if (dtype == 0) FailNoArray(call);
      const int64_t rank = buffer.rank;
      int64_t* dims = buffer.dims;
      int64_t* strides = const_cast<int64_t*>(&kOneStride);
      if (rank > 1) {
        strides = next.strides;
        next.strides += rank;
        if (next.strides > strides_end) return false;
        FillCompactStrides(dims, rank, strides);
      }
      next.tensor->data = buffer.data;
      next.tensor->device = device;
      next.tensor->ndim = static_cast<int32_t>(rank);
      std::memcpy(&next.tensor->dtype, &dtype, sizeof(dtype));
      next.tensor->shape = dims;
      next.tensor->strides = strides;
      next.tensor->byte_offset = 0;
      *next.value = MakeTensorView(next.tensor);
      ++next.tensor;
      ++next.value;
    }
    *room = next;
    return true;
  }

  const TVMFFIAny* values_ = inline_values_;
  std::unique_ptr<Heap> opt_heap_;
  TVMFFIAny inline_values_[kInline];
  DLTensor inline_tensors_[kInline];
  int64_t inline_strides_[kInlineDims];
};

}  // namespace graphffi

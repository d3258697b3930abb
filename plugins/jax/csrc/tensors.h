// SPDX-License-Identifier: Apache-2.0
// XLA's buffers as DLTensors, on the stack of one call.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>

#include "call/call_frame.h"
#include "call/value.h"
#include "dtype.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// Memory for the tensors of one call. Borrowed.
struct TensorRoom {
  DLTensor* tensors;  ///< as many as are made
  int64_t* strides;
  const int64_t* strides_end;
};

/// \throws Error(TypeError): a buffer that is no array.
[[noreturn, gnu::cold]] void FailNoArray(const xla::Buffers& buffers, int64_t index,
                                         const char* bank);

/// Makes compact views of the first `count` of `buffers`, and *values* of kind DLTensorPtr. Shapes
/// are borrowed from the buffers; what is taken of `room` is gone from it. False where its strides
/// are too few. `bank` ("operand ") names the buffers in errors. \throws Error(TypeError) for what
/// is no array (a token).
inline bool MakeViews(const xla::Buffers& buffers, int32_t count, DLDevice device, const char* bank,
                      TensorRoom* room, TVMFFIAny* values) {
  static constexpr int64_t kOneStride = 1;  // of all that have at most one
  const xla::BufferTag* const tags = buffers.tags;
  void* const* const pointers = buffers.buffers;
  DLTensor* tensor = room->tensors;
  int64_t* next_strides = room->strides;
  for (int64_t i = 0; i < count; ++i, ++tensor) {
    if (tags[i] != xla::kBuffer) FailNoArray(buffers, i, bank);
    auto& buffer = *static_cast<const xla::Buffer*>(pointers[i]);
    const DLDataType dtype = ToDLPack(buffer.dtype);
    if (dtype.bits == 0) FailNoArray(buffers, i, bank);
    const int64_t rank = buffer.rank;
    int64_t* strides = const_cast<int64_t*>(&kOneStride);
    if (rank > 1) {
      if (room->strides_end - next_strides < rank) return false;
      strides = next_strides;
      next_strides += rank;
      graphffi::FillCompactStrides(buffer.dims, rank, strides);
    }
    tensor->data = buffer.data;
    tensor->device = device;
    tensor->ndim = static_cast<int32_t>(rank);
    tensor->dtype = dtype;
    tensor->shape = buffer.dims;
    tensor->strides = strides;
    tensor->byte_offset = 0;
    graphffi::PutView(tensor, values + i);
  }
  room->tensors = tensor;
  room->strides = next_strides;
  return true;
}

/// Makes pairs of the float4 elements among `count` *values* of MakeViews, as jax-tvm-ffi passes
/// them: two lanes, the last dimension halved. False where `room` has no place for the shapes.
bool PairFloat4(const TVMFFIAny* values, int32_t count, TensorRoom* room);

/// How many dimensions the arrays among `buffers` have together.
int64_t CountDims(const xla::Buffers& buffers);

}  // namespace graphffi_jax

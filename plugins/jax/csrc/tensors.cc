// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <algorithm>
#include <string>

#include "call/error.h"
#include "dtype.h"

namespace graphffi_jax {

void FailNoArray(const xla::Buffers& buffers, int64_t index, const char* bank) {
  std::string got = "something else";
  if (buffers.tags[index] == xla::kBuffer) {
    got = DataTypeName(static_cast<const xla::Buffer*>(buffers.buffers[index])->dtype);
  }
  throw graphffi::Error(
      "TypeError", std::string(bank) + std::to_string(index) + ": expected an array, got " + got);
}

bool PairFloat4(const TVMFFIAny* values, int32_t count, TensorRoom* room) {
  for (int32_t i = 0; i < count; ++i) {
    auto* tensor = static_cast<DLTensor*>(values[i].v_ptr);
    if (tensor->dtype.code != kDLFloat4_e2m1fn) continue;
    tensor->dtype.lanes = 2;
    const int32_t ndim = tensor->ndim;
    if (ndim == 0) continue;
    if (room->strides_end - room->strides < ndim) return false;
    int64_t* shape = room->strides;
    room->strides += ndim;
    std::copy_n(tensor->shape, ndim, shape);
    shape[ndim - 1] = (shape[ndim - 1] + 1) / 2;
    tensor->shape = shape;
    if (ndim > 1) graphffi::FillCompactStrides(shape, ndim, tensor->strides);
  }
  return true;
}

int64_t CountDims(const xla::Buffers& buffers) {
  int64_t count = 0;
  for (int64_t i = 0; i < buffers.size; ++i) {
    if (buffers.tags[i] == xla::kBuffer) {
      count += static_cast<const xla::Buffer*>(buffers.buffers[i])->rank;
    }
  }
  return count;
}

}  // namespace graphffi_jax

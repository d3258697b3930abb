// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <string>

#include "callframe/error.h"

namespace graphffi {

void Tensors::Reserve(int64_t size) {
  heap_tensors_.reset(new DLTensor[static_cast<size_t>(size)]);
  heap_values_.reset(new TVMFFIAny[static_cast<size_t>(size)]);
  tensors_ = heap_tensors_.get();
  values_ = heap_values_.get();
}

int64_t* Tensors::NewStrides(int64_t rank) {
  heap_strides_.emplace_back(new int64_t[static_cast<size_t>(rank)]);
  return heap_strides_.back().get();
}

void Tensors::FailNoArray(const xla::Buffers& buffers, const char* bank, int64_t i) {
  std::string got = "something else";
  if (buffers.tags[i] == xla::kBuffer) {
    got = DataTypeName(static_cast<const xla::Buffer*>(buffers.buffers[i])->dtype);
  }
  throw Error("TypeError",
              std::string(bank) + std::to_string(i) + ": expected an array, got " + got);
}

}  // namespace graphffi

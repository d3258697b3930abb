// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <string>

#include "callframe/error.h"
#include "dtype.h"

namespace graphffi_jax {

using graphffi::Error;

void FailNoArray(const xla::Buffers& buffers, int64_t index, const char* bank) {
  std::string got = "something else";
  if (buffers.tags[index] == xla::kBuffer) {
    got = DataTypeName(static_cast<const xla::Buffer*>(buffers.buffers[index])->dtype);
  }
  throw Error("TypeError",
              std::string(bank) + std::to_string(index) + ": expected an array, got " + got);
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

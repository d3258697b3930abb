// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <string>

#include "callframe/error.h"

namespace graphffi {
namespace {

int64_t CountDims(const xla::Buffers& buffers) {
  int64_t count = 0;
  for (int64_t i = 0; i < buffers.size; ++i) {
    if (buffers.tags[i] == xla::kBuffer) {
      count += static_cast<const xla::Buffer*>(buffers.buffers[i])->rank;
    }
  }
  return count;
}

void CheckArrays(const xla::Buffers& buffers, const char* bank) {
  for (int64_t i = 0; i < buffers.size; ++i) {
    std::string got = "something else";
    if (buffers.tags[i] == xla::kBuffer) {
      const xla::DataType dtype = static_cast<const xla::Buffer*>(buffers.buffers[i])->dtype;
      if (ToDLPack(dtype).bits != 0) continue;
      got = DataTypeName(dtype);
    }
    throw Error("TypeError",
                std::string(bank) + std::to_string(i) + ": expected an array, got " + got);
  }
}

}  // namespace

// Here, so that it is not part of every call.
Tensors::Heap::~Heap() = default;

void Tensors::FillOnHeap(const xla::CallFrame& call, DLDevice device) {
  const size_t size = static_cast<size_t>(call.args.size + call.rets.size);
  const int64_t num_dims = CountDims(call.args) + CountDims(call.rets);
  opt_heap_.reset(new Heap);
  opt_heap_->tensors.reset(new DLTensor[size]);
  opt_heap_->values.reset(new TVMFFIAny[size]);
  opt_heap_->strides.reset(new int64_t[static_cast<size_t>(num_dims)]);
  int64_t* strides = opt_heap_->strides.get();
  Fill(call, device, {opt_heap_->tensors.get(), opt_heap_->values.get(), strides},
       strides + num_dims);
  values_ = opt_heap_->values.get();
}

void Tensors::FailNoArray(const xla::CallFrame& call) {
  CheckArrays(call.args, "operand ");
  CheckArrays(call.rets, "result ");
  throw Error("InternalError", "graphffi: an array became none during a call");
}

}  // namespace graphffi

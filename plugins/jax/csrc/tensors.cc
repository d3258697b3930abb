// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <string>

#include "callframe/error.h"

namespace graphffi {
namespace {

[[noreturn]] void FailNoArray(const char* bank, int64_t index, const std::string& got) {
  throw Error("TypeError",
              std::string(bank) + std::to_string(index) + ": expected an array, got " + got);
}

int64_t NumDims(const xla::Buffers& buffers) {
  int64_t dims = 0;
  for (int64_t i = 0; i < buffers.size; ++i) {
    if (buffers.tags[i] == xla::kBuffer)
      dims += static_cast<const xla::Buffer*>(buffers.buffers[i])->rank;
  }
  return dims;
}

}  // namespace

Tensors::Tensors(const xla::CallFrame& call, DLDevice device) {
  Reserve(call);
  Add(call.args, "operand ", device);
  Add(call.rets, "result ", device);
}

void Tensors::Reserve(const xla::CallFrame& call) {
  int64_t size = call.args.size + call.rets.size;
  if (size > kInline) {
    heap_tensors_.reset(new DLTensor[static_cast<size_t>(size)]);
    heap_values_.reset(new TVMFFIAny[static_cast<size_t>(size)]);
    tensors_ = heap_tensors_.get();
    values_ = heap_values_.get();
  }
  int64_t dims = NumDims(call.args) + NumDims(call.rets);
  if (dims > kInlineDims) {
    heap_strides_.reset(new int64_t[static_cast<size_t>(dims)]);
    strides_ = heap_strides_.get();
  }
}

void Tensors::Add(const xla::Buffers& buffers, const char* bank, DLDevice device) {
  for (int64_t i = 0; i < buffers.size; ++i, ++size_) {
    if (buffers.tags[i] != xla::kBuffer) FailNoArray(bank, i, "something else");
    auto& buffer = *static_cast<const xla::Buffer*>(buffers.buffers[i]);
    DLDataType dtype = ToDLPack(buffer.dtype);
    if (dtype.bits == 0) FailNoArray(bank, i, DataTypeName(buffer.dtype));
    DLTensor& tensor = tensors_[size_];
    tensor.data = buffer.data;
    tensor.device = device;
    tensor.ndim = static_cast<int32_t>(buffer.rank);
    tensor.dtype = dtype;
    tensor.shape = buffer.dims;
    tensor.strides = strides_;
    tensor.byte_offset = 0;
    FillCompactStrides(buffer.dims, tensor.ndim, strides_);
    strides_ += buffer.rank;
    TVMFFIAny& value = values_[size_];
    value.type_index = kTVMFFIDLTensorPtr;
    value.zero_padding = 0;
    value.v_ptr = &tensor;
  }
}

}  // namespace graphffi

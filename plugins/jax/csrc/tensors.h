// SPDX-License-Identifier: Apache-2.0
// XLA's buffers as DLTensors, on the stack of one call.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "callframe/call_frame.h"
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
    const int64_t size = call.args.size + call.rets.size;
    if (size > kInline) Reserve(size);
    Add(call.args, "operand ", device);
    Add(call.rets, "result ", device);
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  /// Values of kind DLTensorPtr: the operands, then the results.
  const TVMFFIAny* values() const { return values_; }

 private:
  void Reserve(int64_t size);
  /// Room for the strides of a tensor for which the inline room is too small.
  int64_t* NewStrides(int64_t rank);
  [[noreturn]] static void FailNoArray(const xla::Buffers& buffers, const char* bank, int64_t i);

  void Add(const xla::Buffers& buffers, const char* bank, DLDevice device) {
    for (int64_t i = 0; i < buffers.size; ++i, ++size_) {
      if (buffers.tags[i] != xla::kBuffer) FailNoArray(buffers, bank, i);
      auto& buffer = *static_cast<const xla::Buffer*>(buffers.buffers[i]);
      const DLDataType dtype = ToDLPack(buffer.dtype);
      if (dtype.bits == 0) FailNoArray(buffers, bank, i);
      int64_t* strides = strides_;
      if (buffer.rank <= inline_strides_ + kInlineDims - strides_) {
        strides_ += buffer.rank;
      } else {
        strides = NewStrides(buffer.rank);
      }
      int64_t stride = 1;
      for (int64_t d = buffer.rank - 1; d >= 0; --d) {
        strides[d] = stride;
        stride *= buffer.dims[d] == 0 ? 1 : buffer.dims[d];
      }
      DLTensor& tensor = tensors_[size_];
      tensor.data = buffer.data;
      tensor.device = device;
      tensor.ndim = static_cast<int32_t>(buffer.rank);
      tensor.dtype = dtype;
      tensor.shape = buffer.dims;
      tensor.strides = strides;
      tensor.byte_offset = 0;
      TVMFFIAny& value = values_[size_];
      value.type_index = kTVMFFIDLTensorPtr;
      value.zero_padding = 0;
      value.v_ptr = &tensor;
    }
  }

  DLTensor inline_tensors_[kInline];
  TVMFFIAny inline_values_[kInline];
  int64_t inline_strides_[kInlineDims];
  DLTensor* tensors_ = inline_tensors_;
  TVMFFIAny* values_ = inline_values_;
  int64_t* strides_ = inline_strides_;
  int64_t size_ = 0;
  std::unique_ptr<DLTensor[]> heap_tensors_;
  std::unique_ptr<TVMFFIAny[]> heap_values_;
  std::vector<std::unique_ptr<int64_t[]>> heap_strides_;
};

}  // namespace graphffi

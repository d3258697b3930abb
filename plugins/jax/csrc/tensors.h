// SPDX-License-Identifier: Apache-2.0
// XLA's buffers as DLTensors, on the stack of one call.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <memory>

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
  Tensors(const xla::CallFrame& call, DLDevice device);
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  /// Values of kind DLTensorPtr: the operands, then the results.
  const TVMFFIAny* values() const { return values_; }

 private:
  void Reserve(const xla::CallFrame& call);
  void Add(const xla::Buffers& buffers, const char* bank, DLDevice device);

  DLTensor inline_tensors_[kInline];
  TVMFFIAny inline_values_[kInline];
  int64_t inline_strides_[kInlineDims];
  DLTensor* tensors_ = inline_tensors_;
  TVMFFIAny* values_ = inline_values_;
  int64_t* strides_ = inline_strides_;
  int64_t size_ = 0;
  std::unique_ptr<DLTensor[]> heap_tensors_;
  std::unique_ptr<TVMFFIAny[]> heap_values_;
  std::unique_ptr<int64_t[]> heap_strides_;
};

}  // namespace graphffi

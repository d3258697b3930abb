// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of torch's operators. These take the operators' arguments, tensors
// row-major, and return new tensors. Compiled with the library that calls them.
#pragma once

#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

#include "compiled/element.h"

/// Defines what gives a new reference to the kernel of `aten.<name>`.
#define GRAPHFFI_OPERATOR(name, function)                                               \
  TVMFFIObjectHandle graphffi_operator_##name() {                                       \
    ffi::Function made = ffi::Function::FromTyped(function);                            \
    return ffi::details::ObjectUnsafe::MoveObjectRefToTVMFFIObjectPtr(std::move(made)); \
  }

namespace {

namespace ffi = tvm::ffi;

inline ffi::Tensor NewTensor(ffi::ShapeView shape, DLDataType dtype) {
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, shape, dtype, {kDLCPU, 0});
}

inline ffi::Tensor Copy(ffi::TensorView from) {
  ffi::Tensor copy = NewTensor(from.shape(), from.dtype());
  const auto bytes = static_cast<size_t>(from.numel()) * ((from.dtype().bits + 7) / 8);
  std::memcpy(copy.data_ptr(), from.data_ptr(), bytes);
  return copy;
}

constexpr DLDataType kInt64{kDLInt, 64, 1};

/// Calls `body` with a value of the type that elements of `dtype` have.
/// \throws Error(NotImplementedError)
template <typename Body>
void WithType(const char* op, DLDataType dtype, Body&& body) {
  switch (dtype.code << 8 | dtype.bits) {
    case kDLFloat << 8 | 32:
      return body(float{});
    case kDLFloat << 8 | 64:
      return body(double{});
    case kDLFloat << 8 | 16:
      return body(Float16{});
    case kDLBfloat << 8 | 16:
      return body(BFloat16{});
    case kDLInt << 8 | 8:
      return body(int8_t{});
    case kDLInt << 8 | 16:
      return body(int16_t{});
    case kDLInt << 8 | 32:
      return body(int32_t{});
    case kDLInt << 8 | 64:
      return body(int64_t{});
    case kDLUInt << 8 | 8:
      return body(uint8_t{});
    case kDLBool << 8 | 8:
      return body(bool{});
    default:
      TVM_FFI_THROW(NotImplementedError) << op << ": expected real numbers of at most 64 bits, got "
                                         << ffi::DLDataTypeToString(dtype) << "; cast the operands";
  }
}

/// A tensor as rows along one of its dimensions: `outer` times `inner` of them, whose `size`
/// elements are `inner` apart.
struct Rows {
  int64_t outer = 1, size = 1, inner = 1;

  Rows(ffi::TensorView tensor, int64_t dim) {
    const int64_t ndim = tensor.ndim();
    if (ndim == 0) return;
    if (dim < 0) dim += ndim;
    for (int64_t i = 0; i < ndim; ++i) {
      (i < dim ? outer : i == dim ? size : inner) *= tensor.size(i);
    }
  }
  int64_t count() const { return outer * inner; }
  /// Where a row begins.
  int64_t Begin(int64_t row) const { return row / inner * size * inner + row % inner; }
};

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Plain values as TVMFFIAny, and the references that a value may hold.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace graphffi {

inline TVMFFIAny MakeInt(int64_t value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

inline TVMFFIAny MakeFloat(double value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIFloat;
  any.v_float64 = value;
  return any;
}

inline TVMFFIAny MakeBool(bool value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIBool;
  any.v_int64 = value;
  return any;
}

inline TVMFFIAny MakePointer(void* value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIOpaquePtr;
  any.v_ptr = value;
  return any;
}

inline TVMFFIAny MakeDType(DLDataType value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIDataType;
  any.v_dtype = value;
  return any;
}

inline TVMFFIAny MakeDevice(DLDevice value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIDevice;
  any.v_device = value;
  return any;
}

/// The value that an object of that type is; borrows from it.
inline TVMFFIAny MakeObject(int32_t type_index, TVMFFIObjectHandle object) {
  TVMFFIAny any{};
  any.type_index = type_index;
  any.v_obj = static_cast<TVMFFIObject*>(object);
  return any;
}

/// Borrows from `bytes`, which are NULL where there are none.
inline std::string_view TextOf(const TVMFFIByteArray& bytes) { return {bytes.data, bytes.size}; }

/// The tensor that a value is or refers to; NULL for any other value.
inline const DLTensor* TensorOf(const TVMFFIAny& value) {
  if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
  return value.type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(value.v_obj) : nullptr;
}

/// Where the elements of `tensor` begin.
inline char* DataOf(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

/// The bytes of all elements, one after the other. SIZE_MAX where that is more than can be: strides
/// of 0 give tensors of any size.
inline size_t BytesOf(const DLTensor& tensor) {
  int64_t bits = int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  bool overflows = false;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return 0;
    overflows |= __builtin_mul_overflow(bits, tensor.shape[i], &bits);
  }
  return overflows ? SIZE_MAX : (static_cast<size_t>(bits) + 7) / 8;
}

namespace detail {

template <typename Visit>
void VisitFrom(const DLTensor& tensor, int32_t dim, const char* data, Visit& visit) {
  if (dim == tensor.ndim) return visit(data);
  const int64_t bytes = int64_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
  for (int64_t i = 0; i < tensor.shape[dim]; ++i) {
    VisitFrom(tensor, dim + 1, data + i * tensor.strides[dim] * bytes, visit);
  }
}

}  // namespace detail

/// Calls visit(address) for each element, row by row. Elements are whole bytes, strides not NULL.
template <typename Visit>
void VisitElements(const DLTensor& tensor, Visit&& visit) {
  if (BytesOf(tensor) != 0) detail::VisitFrom(tensor, 0, DataOf(tensor), visit);
}

/// Borrows `text`.
inline TVMFFIAny MakeRawStr(const char* text) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = text;
  return any;
}

/// Borrows `tensor`.
inline TVMFFIAny MakeTensorView(DLTensor* tensor) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIDLTensorPtr;
  any.v_ptr = tensor;
  return any;
}

inline bool IsObject(const TVMFFIAny& value) {
  return value.type_index >= kTVMFFIStaticObjectBegin;
}

/// Gives up what `value` owns and makes it None.
inline void ReleaseValue(TVMFFIAny* value) {
  if (IsObject(*value)) TVMFFIObjectDecRef(value->v_obj);
  *value = TVMFFIAny{};
}

}  // namespace graphffi

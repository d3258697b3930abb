// SPDX-License-Identifier: Apache-2.0
// Plain values as TVMFFIAny, and the references that a value may hold.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

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

/// The tensor that a value is or refers to; NULL for any other value.
inline const DLTensor* TensorOf(const TVMFFIAny& value) {
  if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
  return value.type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(value.v_obj) : nullptr;
}

/// Where the elements of `tensor` begin.
inline char* DataOf(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

/// The bytes of all elements, one after the other.
inline size_t BytesOf(const DLTensor& tensor) {
  int64_t bits = int64_t{tensor.dtype.bits} * tensor.dtype.lanes;
  for (int32_t i = 0; i < tensor.ndim; ++i) bits *= tensor.shape[i];
  return static_cast<size_t>(bits + 7) / 8;
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

/// Copies a value that may have been written just now, which was in halves: a load of the whole
/// would wait until both have reached the cache.
inline void CopyFresh(const TVMFFIAny& from, TVMFFIAny* to) {
  uint64_t head;
  std::memcpy(&head, &from, sizeof(head));
  asm("" : "+r"(head));  // keeps compilers from one load for both halves
  std::memcpy(to, &head, sizeof(head));
  to->v_uint64 = from.v_uint64;
}

/// Gives up what `value` owns and makes it None.
inline void ReleaseValue(TVMFFIAny* value) {
  if (IsObject(*value)) TVMFFIObjectDecRef(value->v_obj);
  *value = TVMFFIAny{};
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Plain values as TVMFFIAny, and the references that a value may hold.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/device.h>
#include <tvm/ffi/dtype.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace graphffi {

/// A plain value: a number, bool, pointer, data type or device. Borrows C strings and `DLTensor*`.
template <typename T>
TVMFFIAny ToAny(const T& value) {
  return tvm::ffi::AnyView(value).CopyToTVMFFIAny();
}

/// The value that an object of that type is; borrows from it.
inline TVMFFIAny ToAny(int32_t type_index, TVMFFIObjectHandle object) {
  TVMFFIAny any{};
  any.type_index = type_index;
  any.v_obj = static_cast<TVMFFIObject*>(object);
  return any;
}

/// Makes `*value` a view of `tensor`. Field by field: a whole value would be made on the stack
/// first, in parts, and copying all of it at once waits for these (a third of the frame of a call
/// in JAX).
inline void PutView(DLTensor* tensor, TVMFFIAny* value) {
  value->type_index = kTVMFFIDLTensorPtr;
  value->zero_padding = 0;
  value->v_ptr = tensor;
}

/// Takes the reference of `value` over.
inline tvm::ffi::Any TakeAny(TVMFFIAny value) {
  return tvm::ffi::detail::AnyUnsafe::MoveTVMFFIAnyRawToAny(value);
}

/// The value with its reference, which is the caller's.
inline TVMFFIAny ReleaseAny(tvm::ffi::Any value) {
  return tvm::ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value));
}

/// Borrows from `bytes`, which are NULL where there are none.
inline std::string_view TextOf(const TVMFFIByteArray& bytes) { return {bytes.data, bytes.size}; }

/// The content of a string, which it keeps; nothing for other values.
inline std::optional<std::string_view> TextOf(const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFIRawStr:
      return value.v_c_str;
    case kTVMFFISmallStr:
      return TextOf(TVMFFISmallBytesGetContentByteArray(&value));
    case kTVMFFIStr:
      return TextOf(*TVMFFIBytesGetByteArrayPtr(value.v_obj));
    default:
      return std::nullopt;
  }
}

/// The name of a type, for errors.
inline std::string TypeKeyOf(int32_t type_index) {
  const TVMFFITypeInfo* opt_type = TVMFFIGetTypeInfo(type_index);
  return opt_type == nullptr ? "another value" : std::string(TextOf(opt_type->type_key));
}

/// The elements of an ffi.Array or List; borrows from it.
struct Elements {
  const TVMFFIAny* values;
  int64_t size;

  explicit Elements(const TVMFFIAny& list) : Elements(*TVMFFISeqGetCellPtr(list.v_obj)) {}
  const TVMFFIAny* begin() const { return values; }
  const TVMFFIAny* end() const { return values + size; }
  const TVMFFIAny& operator[](size_t i) const { return values[i]; }

 private:
  explicit Elements(const TVMFFISeqCell& cell)
      : values(static_cast<const TVMFFIAny*>(cell.data)), size(cell.size) {}
};

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

inline bool IsObject(const TVMFFIAny& value) {
  return value.type_index >= kTVMFFIStaticObjectBegin;
}

/// Gives up what `value` owns and makes it None.
inline void ReleaseValue(TVMFFIAny* value) {
  if (IsObject(*value)) TVMFFIObjectDecRef(value->v_obj);
  *value = TVMFFIAny{};
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// DLDataType as a value: names, comparison, printing.
#pragma once

#include <tvm/ffi/any.h>

#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Codes from here on are of types that a program adds.
enum DLExtDataTypeCode { kDLExtCustomBegin = 129 };

/// From "float32", "bfloat16x4", "bool", … \throws Error(ValueError) for another text
inline DLDataType StringToDLDataType(std::string_view text) {
  DLDataType dtype;
  TVMFFIByteArray name = ToByteArray(text);
  TVM_FFI_CHECK_SAFE_CALL(TVMFFIDataTypeFromString(&name, &dtype));
  return dtype;
}

/// The name that StringToDLDataType reads back.
inline String DLDataTypeToString(DLDataType dtype) {
  TVMFFIAny text{};
  TVM_FFI_CHECK_SAFE_CALL(TVMFFIDataTypeToString(&dtype, &text));
  return TypeTraits<String>::MoveFromAnyAfterCheck(&text);
}

/// The bytes that so many elements take, sub-byte types packed: 3 float4 elements take 2 bytes.
inline size_t GetDataSize(int64_t num_elements, DLDataType dtype) {
  return (static_cast<size_t>(num_elements) * dtype.bits * dtype.lanes + 7) / 8;
}

template <>
struct TypeTraits<DLDataType>
    : detail::PODTraits<DLDataType, TypeTraits<DLDataType>, kTVMFFIDataType> {
  static void Write(DLDataType value, TVMFFIAny* out) { out->v_dtype = value; }
  static DLDataType Read(const TVMFFIAny* source) { return source->v_dtype; }
  static std::optional<DLDataType> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIDataType) return Read(source);
    if (auto text = TypeTraits<String>::TryCastFromAnyView(source)) {
      return StringToDLDataType(*text);
    }
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIDataType; }
  static std::string TypeSchema() { return detail::SimpleSchema("DataType"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// DLDataType is declared outside any namespace, and so are its operators. As templates they yield
// to operators that a kernel library may define itself.

template <typename T, typename = std::enable_if_t<std::is_same_v<T, DLDataType>>>
constexpr bool operator==(const T& a, const T& b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
template <typename T, typename = std::enable_if_t<std::is_same_v<T, DLDataType>>, typename = void>
constexpr bool operator!=(const T& a, const T& b) {
  return !(a == b);
}
template <typename T, typename = std::enable_if_t<std::is_same_v<T, DLDataType>>>
std::ostream& operator<<(std::ostream& os, const T& dtype) {
  return os << tvm::ffi::DLDataTypeToString(dtype);
}

template <>
struct std::hash<DLDataType> {
  size_t operator()(const DLDataType& dtype) const {
    return (static_cast<size_t>(dtype.code) << 24) | (static_cast<size_t>(dtype.bits) << 16) |
           dtype.lanes;
  }
};

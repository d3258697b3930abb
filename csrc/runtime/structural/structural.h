// SPDX-License-Identifier: Apache-2.0
// Parts that functions over the structure of values share.
#pragma once

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/reflection/accessor.h>

#include <optional>
#include <string_view>

#include "runtime/containers/contents.h"
#include "stack_guard.h"

namespace graphffi::runtime {

/// The region of a value that a type's own function hands on; current where it names none.
inline TVMFFIDefRegionKind RegionOfHook(int kind, TVMFFIDefRegionKind current) {
  return kind == kTVMFFIDefRegionKindNone ? current : static_cast<TVMFFIDefRegionKind>(kind);
}

/// A type's own function, if it registered one. \throws Error(TypeError) if that is another value
inline std::optional<ffi::Function> OwnFunction(const char* attribute, int32_t type_index) {
  const TVMFFIAny* own = ffi::detail::OptTypeAttr(attribute, type_index);
  if (own == nullptr) return std::nullopt;
  return AnyView::CopyFromTVMFFIAny(*own).cast<ffi::Function>();
}

/// The type index; one for both forms of strings, and one for those of bytes.
inline int32_t KindOf(const Any& value) {
  int32_t index = value.type_index();
  if (index == kTVMFFISmallStr) return kTVMFFIStr;
  if (index == kTVMFFISmallBytes) return kTVMFFIBytes;
  return index;
}

/// How objects of a type compare. \throws Error(TypeError) if the type does not say
inline TVMFFISEqHashKind CompareKind(int32_t type_index, const char* what) {
  const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(type_index);
  if (type->metadata == nullptr ||
      type->metadata->structural_eq_hash_kind == kTVMFFISEqHashKindUnsupported) {
    TVM_FFI_THROW(TypeError) << what << " is not supported for type `"
                             << ffi::TypeIndexToTypeKey(type_index) << "`";
  }
  return type->metadata->structural_eq_hash_kind;
}

/// The bytes of a tensor. \throws Error(ValueError) where they cannot be read
inline std::string_view TensorBytes(const DLTensor& tensor) {
  if (tensor.device.device_type != kDLCPU || !ffi::IsContiguous(tensor)) {
    TVM_FFI_THROW(ValueError) << "only contiguous tensors on the CPU are compared by content";
  }
  return {static_cast<const char*>(tensor.data) + tensor.byte_offset, ffi::GetDataSize(tensor)};
}

inline std::string_view BigIntBytes(const Any& value) {
  TVMFFIByteArray bytes =
      TVMFFIBigIntGetContentByteArray(ffi::detail::AnyUnsafe::TVMFFIAnyPtrFromAny(value));
  return {bytes.data, bytes.size};
}

}  // namespace graphffi::runtime

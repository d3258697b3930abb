// SPDX-License-Identifier: Apache-2.0
// Enum, IntEnum and StrEnum: types with a fixed set of instances, which reflection::EnumDef
// registers.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The registered instances of one enum type.
class EnumStateObj : public Object {
 public:
  /// In the order of registration.
  List<ObjectRef> entries;
  /// By number and by name.
  Dict<Any, ObjectRef> indexes;
  /// Values that belong to instances, by the attribute's name.
  Dict<String, Dict<ObjectRef, Any>> attrs;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("ffi.EnumState", EnumStateObj, Object);
};

class EnumState : public ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(EnumState, ObjectRef, EnumStateObj);
};

class Enum;

class EnumObj : public Object {
 public:
  int64_t _int_index = 0;
  String _str_index;

  EnumObj() = default;
  EnumObj(int64_t int_index, String str_index)
      : _int_index(int_index), _str_index(std::move(str_index)) {}

  /// The instance of an enum type by number or name. \throws Error(ValueError) if there is none
  template <typename EnumType>
  static Enum _GetByIntIndex(int64_t index);
  template <typename EnumType>
  static Enum _GetByStrIndex(const String& index);
  static Enum _GetByIntIndex(int32_t type_index, int64_t index);
  static Enum _GetByStrIndex(int32_t type_index, const String& index);

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindUniqueInstance;
  TVM_FFI_DECLARE_OBJECT_INFO("ffi.Enum", EnumObj, Object);

 private:
  template <typename Index>
  static Enum Find(int32_t type_index, const Index& index);
};

class Enum : public ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Enum, ObjectRef, EnumObj);
};

/// An enum whose numbers have a meaning.
class IntEnumObj : public EnumObj {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO("ffi.IntEnum", IntEnumObj, EnumObj);
};

class IntEnum : public Enum {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(IntEnum, Enum, IntEnumObj);
};

/// An enum whose names have a meaning.
class StrEnumObj : public EnumObj {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO("ffi.StrEnum", StrEnumObj, EnumObj);
};

class StrEnum : public Enum {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(StrEnum, Enum, StrEnumObj);
};

namespace type_attr {
inline constexpr reflection::AttrKey<EnumState> kEnumState{"__ffi_enum__"};
}  // namespace type_attr

namespace detail {

/// The state of an enum type; nothing before its first instance. \throws Error(TypeError) if the
/// attribute is another value
inline std::optional<EnumState> FindEnumState(int32_t type_index) {
  const TVMFFIAny* attr = OptTypeAttr(type_attr::kEnumState.name, type_index);
  if (attr == nullptr) return std::nullopt;
  AnyView value = AnyView::CopyFromTVMFFIAny(*attr);
  if (std::optional<EnumState> state = value.as<EnumState>()) return state;
  TVM_FFI_THROW(TypeError) << "Expected `" << EnumStateObj::_type_key
                           << "` in enum state column, but got `" << value.GetTypeKey() << "`";
  TVM_FFI_UNREACHABLE();
}

}  // namespace detail

template <typename Index>
Enum EnumObj::Find(int32_t type_index, const Index& index) {
  if (std::optional<EnumState> state = detail::FindEnumState(type_index)) {
    Any key(index);
    const Dict<Any, ObjectRef>& indexes = (*state)->indexes;
    if (indexes.count(key) != 0) return indexes.at(key).template as_or_throw<Enum>();
  }
  TVM_FFI_THROW(ValueError) << "Enum `" << TypeIndexToTypeKey(type_index)
                            << "` has no instance with index " << index;
  TVM_FFI_UNREACHABLE();
}

template <typename EnumType>
Enum EnumObj::_GetByIntIndex(int64_t index) {
  return Find(EnumType::_GetOrAllocRuntimeTypeIndex(), index);
}
template <typename EnumType>
Enum EnumObj::_GetByStrIndex(const String& index) {
  return Find(EnumType::_GetOrAllocRuntimeTypeIndex(), index);
}
inline Enum EnumObj::_GetByIntIndex(int32_t type_index, int64_t index) {
  return Find(type_index, index);
}
inline Enum EnumObj::_GetByStrIndex(int32_t type_index, const String& index) {
  return Find(type_index, index);
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

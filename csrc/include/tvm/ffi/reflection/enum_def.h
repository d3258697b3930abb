// SPDX-License-Identifier: Apache-2.0
// EnumDef: registers the instances of an enum type.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/enum.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/memory.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// `EnumDef<ColorObj>("red").set_attr("hex", 0xFF0000);` registers one instance.
template <typename EnumType, typename = std::enable_if_t<std::is_base_of_v<EnumObj, EnumType>>>
class EnumDef {
 public:
  static bool IsDefined(const String& name) {
    std::optional<EnumState> state = ::tvm::ffi::detail::FindEnumState(TypeIndexOf());
    return state.has_value() && (*state)->indexes.count(Any(name)) != 0;
  }

  /// Numbered in the order of registration. \throws Error(ValueError) if the name is taken
  explicit EnumDef(const char* name) {
    static_assert(!std::is_base_of_v<IntEnumObj, EnumType>, "an IntEnum needs a number");
    Register(static_cast<int64_t>(State()->entries.size()), String(name));
  }
  EnumDef(const char* name, int64_t number) {
    static_assert(std::is_base_of_v<IntEnumObj, EnumType>, "only an IntEnum has numbers");
    Register(number, String(name));
  }

  template <typename T>
  EnumDef& set_attr(const char* name, T value) {
    Dict<String, Dict<ObjectRef, Any>> attrs = State()->attrs;
    String key(name);
    if (attrs.count(key) == 0) attrs.Set(key, Dict<ObjectRef, Any>());
    Dict<ObjectRef, Any> values = attrs.at(key);
    values.Set(instance_, Any(std::move(value)));
    return *this;
  }
  template <typename T, typename Value>
  EnumDef& set_attr(AttrKey<T> key, Value&& value) {
    return set_attr(key.name, T(std::forward<Value>(value)));
  }
  /// A function known at compile time, as what the key's type makes of it.
  template <auto Fn, typename T>
  EnumDef& set_native_fn_attr(AttrKey<T> key) {
    return set_attr(key, T::template FromNative<Fn>());
  }

 private:
  static int32_t TypeIndexOf() { return EnumType::_GetOrAllocRuntimeTypeIndex(); }

  /// Made with the first instance. Its containers are shared: changes of copies show.
  static EnumState State() {
    EnsureTypeAttrColumn(type_attr::kEnumState);
    if (auto state = ::tvm::ffi::detail::FindEnumState(TypeIndexOf())) return *state;
    EnumState state = ::tvm::ffi::detail::ObjectUnsafe::ObjectRefFromObjectPtr<EnumState>(
        make_object<EnumStateObj>());
    TypeAttrDef<EnumType>().attr(type_attr::kEnumState, state);
    return state;
  }

  void Register(int64_t number, String name) {
    EnumState state = State();
    Dict<Any, ObjectRef> indexes = state->indexes;
    Any number_key(number);
    Any name_key(name);
    if (indexes.count(number_key) != 0 || indexes.count(name_key) != 0) {
      TVM_FFI_THROW(ValueError) << "Duplicate enum index for type `" << EnumType::_type_key << "`";
    }
    auto object = make_object<EnumType>();
    object->_int_index = number;
    object->_str_index = std::move(name);
    instance_ = ::tvm::ffi::detail::ObjectUnsafe::ObjectRefFromObjectPtr<Enum>(std::move(object));
    List<ObjectRef> entries = state->entries;
    entries.push_back(instance_);
    indexes.Set(number_key, instance_);
    indexes.Set(name_key, instance_);
  }

  Enum instance_{UnsafeInit{}};
};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi

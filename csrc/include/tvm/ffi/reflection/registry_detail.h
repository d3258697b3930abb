// SPDX-License-Identifier: Apache-2.0
// The records that registrations hand to the runtime, and the functions in them.
#pragma once

#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/info_trait.h>

#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// `.def(init<Args...>())`: the host language may construct the type with these arguments.
template <typename... Args>
struct init {
  constexpr init() noexcept = default;

  template <typename Class>
  static ObjectRef execute(Args... args) {
    return ObjectRef(make_object<Class>(std::forward<Args>(args)...));
  }
};
/// `init(false)`: the constructor that the host language gets by default leaves the field out, or,
/// as an argument of ObjectDef, there is none.
template <>
struct init<> : InfoTrait {
  constexpr init() noexcept = default;
  constexpr explicit init(bool include) : include(include) {}
  void Apply(TVMFFIFieldInfo* info) const {
    if (!include) info->flags |= kTVMFFIFieldFlagBitMaskInitOff;
  }

  template <typename Class>
  static ObjectRef execute() {
    return ObjectRef(make_object<Class>());
  }

  bool include = true;
};
init(bool) -> init<>;

/// Where a field lies from the object's header.
template <typename Class, typename T>
int64_t GetFieldByteOffsetToObject(T Class::* field) {
  // The storage stands in for an object that is never made.
  alignas(Class) static char storage[sizeof(Class)];
  auto* object = reinterpret_cast<Class*>(storage);
  return reinterpret_cast<char*>(&(object->*field)) -
         reinterpret_cast<char*>(static_cast<Object*>(object));
}

namespace detail {

using ::tvm::ffi::detail::FunctionInfo;

/// The record of a function or method, without what extra arguments add. function must outlive it.
inline MethodInfoBuilder MethodRecord(const char* name, const Function& function, bool is_static,
                                      const std::string& schema) {
  MethodInfoBuilder info{};
  info.name = ToByteArray(name);
  info.doc = ToByteArray("");
  info.flags = is_static ? static_cast<int64_t>(kTVMFFIFieldFlagBitMaskIsStaticMethod) : 0;
  info.method = AnyView(function).CopyToTVMFFIAny();
  info.metadata_.emplace_back("type_schema", String(schema));
  return info;
}

/// Applies the extra arguments and hands the record to `int submit(const Info*)`.
template <typename Info, typename Submit, typename... Extra>
void SubmitRecord(Info* info, Submit submit, const Extra&... extra) {
  (ApplyExtra(info, extra), ...);
  std::string metadata = MetadataJSON(info->metadata_);
  info->metadata = ToByteArray(metadata);
  TVM_FFI_CHECK_SAFE_CALL(submit(info));
}

template <typename T>
int GetField(void* field, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *result = ::tvm::ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(Any(*static_cast<const T*>(field)));
  TVM_FFI_SAFE_CALL_END();
}

template <typename T>
int SetField(void* field, const TVMFFIAny* value) {
  TVM_FFI_SAFE_CALL_BEGIN();
  if constexpr (std::is_same_v<T, Any>) {
    *static_cast<T*>(field) = AnyView::CopyFromTVMFFIAny(*value);
  } else {
    *static_cast<T*>(field) = AnyView::CopyFromTVMFFIAny(*value).cast<T>();
  }
  TVM_FFI_SAFE_CALL_END();
}

template <typename Class, typename T, typename Base>
FieldInfoBuilder FieldRecord(const char* name, T Base::* field, bool writable) {
  FieldInfoBuilder info{};
  info.name = ToByteArray(name);
  info.doc = ToByteArray("");
  info.flags = writable ? static_cast<int64_t>(kTVMFFIFieldFlagBitMaskWritable) : 0;
  info.size = sizeof(T);
  info.alignment = alignof(T);
  info.offset = GetFieldByteOffsetToObject<Class, T>(field);
  info.getter = GetField<T>;
  info.setter = reinterpret_cast<void*>(SetField<T>);
  info.field_static_type_index = TypeToFieldStaticTypeIndex<T>::value;
  info.metadata_.emplace_back("type_schema", String(::tvm::ffi::detail::TypeSchema<T>::v()));
  return info;
}

/// Makes an object whose fields the runtime sets afterwards. A return code of the ABI.
template <typename Class>
int CreateObject(TVMFFIObjectHandle* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  ObjectPtr<Class> object;
  if constexpr (std::is_default_constructible_v<Class>) {
    object = make_object<Class>();
  } else {
    object = make_object<Class>(UnsafeInit{});
  }
  *result = ::tvm::ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(object));
  TVM_FFI_SAFE_CALL_END();
}

/// How the runtime makes an object whose fields it sets afterwards; null if that is impossible.
template <typename Class>
TVMFFIObjectCreator CreatorOf() {
  if constexpr (!std::is_abstract_v<Class> && (std::is_constructible_v<Class, UnsafeInit> ||
                                               std::is_default_constructible_v<Class>)) {
    return CreateObject<Class>;
  } else {
    return nullptr;
  }
}

/// The class of a member, by the pointer's type.
template <typename T, typename Class>
Class* ClassOf(T Class::*);

/// The member function as a function of the object, given as pointer, or as reference where it is a
/// function of a reference type: of Class, or of the one that refers to Class.
template <typename Class, typename R, typename Base, typename... Args>
auto BindMethod(R (Base::*method)(Args...)) {
  if constexpr (std::is_base_of_v<ObjectRef, Base>) {
    using Self = std::conditional_t<std::is_base_of_v<Base, Class>, Class, Base>;
    return [method](Self self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    };
  } else {
    return [method](const Class* self, Args... args) -> R {
      return (const_cast<Class*>(self)->*method)(std::forward<Args>(args)...);
    };
  }
}
template <typename Class, typename R, typename Base, typename... Args>
auto BindMethod(R (Base::*method)(Args...) const) {
  if constexpr (std::is_base_of_v<ObjectRef, Base>) {
    using Self = std::conditional_t<std::is_base_of_v<Base, Class>, Class, Base>;
    return [method](const Self& self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    };
  } else {
    return [method](const Class* self, Args... args) -> R {
      return (self->*method)(std::forward<Args>(args)...);
    };
  }
}
template <typename Class, typename F, typename = std::enable_if_t<!std::is_member_pointer_v<F>>>
F BindMethod(F function) {
  return function;
}

}  // namespace detail

namespace detail {

/// `overload_cast<Args...>(&f)` picks the overload of f whose parameters begin with Args;
/// `const_` as the second argument picks the const one.
template <typename... Args>
struct OverloadCast {
  // Exact parameter lists come first: they are the better match where one is a prefix of another.
  template <typename R>
  constexpr auto operator()(R (*function)(Args...)) const noexcept {
    return function;
  }
  template <typename R, typename Class>
  constexpr auto operator()(R (Class::*method)(Args...), std::false_type = {}) const noexcept {
    return method;
  }
  template <typename R, typename Class>
  constexpr auto operator()(R (Class::*method)(Args...) const, std::true_type) const noexcept {
    return method;
  }
  template <typename R, typename... Rest>
  constexpr auto operator()(R (*function)(Args..., Rest...)) const noexcept {
    return function;
  }
  template <typename R, typename Class, typename... Rest>
  constexpr auto operator()(R (Class::*method)(Args..., Rest...),
                            std::false_type = {}) const noexcept {
    return method;
  }
  template <typename R, typename Class, typename... Rest>
  constexpr auto operator()(R (Class::*method)(Args..., Rest...) const,
                            std::true_type) const noexcept {
    return method;
  }
};

}  // namespace detail

template <typename... Args>
inline constexpr detail::OverloadCast<Args...> overload_cast = {};
inline constexpr std::true_type const_ = {};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi

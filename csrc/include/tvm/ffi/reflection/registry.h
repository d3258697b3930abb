// SPDX-License-Identifier: Apache-2.0
// GlobalDef registers functions under global names, ObjectDef the fields and methods of object
// types, TypeAttrDef attributes of types. All of them are used in a TVM_FFI_STATIC_INIT_BLOCK.
#pragma once

#include <tvm/ffi/reflection/registry_detail.h>

#include <string>
#include <type_traits>
#include <utility>

namespace tvm {
namespace ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// Registers global functions: `GlobalDef().def("my.add", [](int a, int b) { return a + b; },
/// "Adds.")`.
class GlobalDef {
 public:
  /// \throws Error(RuntimeError) if the name is taken
  template <typename F, typename... Extra>
  GlobalDef& def(const char* name, F&& function, Extra&&... extra) {
    auto record = detail::TypedRecord(name, std::forward<F>(function), name);
    return Register(&record, extra...);
  }
  /// From `void(PackedArgs, Any*)`.
  template <typename F, typename... Extra>
  GlobalDef& def_packed(const char* name, F function, Extra&&... extra) {
    auto record = detail::PackedRecord(name, std::move(function));
    return Register(&record, extra...);
  }
  /// From a member function: the object comes as the first argument.
  template <typename F, typename... Extra>
  GlobalDef& def_method(const char* name, F method, Extra&&... extra) {
    if constexpr (std::is_member_function_pointer_v<F>) {
      using Class = typename detail::MemberClass<F>::Type;
      return def(name, detail::BindMethod<Class>(method), std::forward<Extra>(extra)...);
    } else {
      return def(name, std::move(method), std::forward<Extra>(extra)...);
    }
  }

 private:
  template <typename... Extra>
  GlobalDef& Register(detail::MethodRecord* record, const Extra&... extra) {
    (record->Apply(extra), ...);
    TVM_FFI_CHECK_SAFE_CALL(TVMFFIFunctionSetGlobalFromMethodInfo(record->Info(true), 0));
    return *this;
  }
};

/// `.def(init<Args...>())`: the host language may construct the type with these arguments.
template <typename... Args>
struct init {
  constexpr init() = default;
  /// `ObjectDef<T>(init(false))`: no constructor is made for the host language.
  constexpr explicit init(bool) {}

  template <typename Class>
  static ObjectRef Make(Args... args) {
    return ObjectRef(make_object<Class>(std::forward<Args>(args)...));
  }
};
init(bool) -> init<>;

/// Registers attributes of a type: values in a column of that name, indexed by type.
template <typename Class>
class TypeAttrDef {
 public:
  template <typename F, typename... Extra>
  TypeAttrDef& def(const char* name, F&& function, Extra&&...) {
    using Decayed = std::decay_t<F>;
    if constexpr (std::is_member_function_pointer_v<Decayed>) {
      return attr(name, Function::FromTyped(detail::BindMethod<Class>(function), name));
    } else if constexpr (TypeTraits<Decayed>::convert_enabled) {
      return attr(name, std::forward<F>(function));
    } else {
      return attr(name, Function::FromTyped(Decayed(std::forward<F>(function)), name));
    }
  }
  template <typename T>
  TypeAttrDef& attr(const char* name, T&& value) {
    TVMFFIByteArray key = ToByteArray(name);
    Any owned(std::forward<T>(value));
    TVMFFIAny view = AnyView(owned).CopyToTVMFFIAny();
    TVM_FFI_CHECK_SAFE_CALL(
        TVMFFITypeRegisterAttr(Class::_GetOrAllocRuntimeTypeIndex(), &key, &view));
    return *this;
  }
};

/// Makes the column of an attribute exist before any type has it.
inline void EnsureTypeAttrColumn(std::string_view name) {
  TVMFFIByteArray key = ToByteArray(name);
  TVMFFIAny none{};
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterAttr(kTVMFFINone, &key, &none));
}

/// Registers an object type: `ObjectDef<MyObj>().def_ro("x", &MyObj::x).def("get", &MyObj::Get)`.
template <typename Class>
class ObjectDef {
 public:
  /// extra: a documentation text.
  template <typename... Extra>
  explicit ObjectDef(Extra&&... extra) : type_index_(Class::_GetOrAllocRuntimeTypeIndex()) {
    TVMFFITypeMetadata info{};
    info.doc = ToByteArray("");
    (detail::ApplyToType(&info, extra), ...);
    info.creator = detail::CreatorOf<Class>();
    info.total_size = static_cast<int32_t>(sizeof(Class));
    info.structural_eq_hash_kind = Class::_type_s_eq_hash_kind;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterMetadata(type_index_, &info));
  }

  /// A field that the host language reads.
  template <typename Base, typename T, typename... Extra>
  ObjectDef& def_ro(const char* name, T Base::* field, Extra&&... extra) {
    return RegisterField(name, field, false, extra...);
  }
  /// A field that the host language reads and writes.
  template <typename Base, typename T, typename... Extra>
  ObjectDef& def_rw(const char* name, T Base::* field, Extra&&... extra) {
    static_assert(Class::_type_mutable, "only types with _type_mutable have writable fields");
    return RegisterField(name, field, true, extra...);
  }
  /// A method: a member function, or a function whose first parameter is the object.
  template <typename F, typename... Extra>
  ObjectDef& def(const char* name, F&& method, Extra&&... extra) {
    return RegisterMethod(name, detail::BindMethod<Class>(std::decay_t<F>(method)), false,
                          extra...);
  }
  template <typename F, typename... Extra>
  ObjectDef& def_static(const char* name, F&& function, Extra&&... extra) {
    return RegisterMethod(name, std::decay_t<F>(function), true, extra...);
  }
  template <typename... Args, typename... Extra>
  ObjectDef& def(init<Args...>, Extra&&... extra) {
    constexpr const char* kName = "__ffi_init__";
    TypeAttrDef<Class>().def(kName, &init<Args...>::template Make<Class>);
    return RegisterMethod(kName, &init<Args...>::template Make<Class>, true, extra...);
  }
  template <typename T>
  ObjectDef& def_type_attr(const char* name, T&& value) {
    TypeAttrDef<Class>().def(name, std::forward<T>(value));
    return *this;
  }

 private:
  template <typename Base, typename T, typename... Extra>
  ObjectDef& RegisterField(const char* name, T Base::* field, bool writable,
                           const Extra&... extra) {
    detail::FieldRecord record(name, detail::FieldOffset<Class>(field), writable,
                               static_cast<T*>(nullptr));
    (record.Apply(extra), ...);
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterField(type_index_, record.Info()));
    return *this;
  }
  template <typename F, typename... Extra>
  ObjectDef& RegisterMethod(const char* name, F function, bool is_static, const Extra&... extra) {
    auto record =
        detail::TypedRecord(name, std::move(function), std::string(Class::_type_key) + "." + name);
    (record.Apply(extra), ...);
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterMethod(type_index_, record.Info(is_static)));
    return *this;
  }

  int32_t type_index_;
};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace ffi
}  // namespace tvm

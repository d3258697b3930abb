// SPDX-License-Identifier: Apache-2.0
// GlobalDef registers functions under global names, ObjectDef the fields and methods of object
// types, TypeAttrDef attributes of types. All of them are used in a TVM_FFI_STATIC_INIT_BLOCK.
#pragma once

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/variant.h>
#include <tvm/ffi/reflection/creator.h>
#include <tvm/ffi/reflection/registry_detail.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// Registers global functions: `GlobalDef().def("my.add", [](int a, int b) { return a + b; },
/// "Adds.")`.
class GlobalDef {
 public:
  /// \throws Error(RuntimeError) if the name is taken
  template <typename F, typename... Extra>
  GlobalDef& def(const char* name, F&& function, Extra&&... extra) {
    using Decayed = std::decay_t<F>;
    return Register(name, Function::FromTyped(Decayed(std::forward<F>(function)), name),
                    detail::FunctionInfo<Decayed>::TypeSchema(), extra...);
  }
  /// From `void(PackedArgs, Any*)`.
  template <typename F, typename... Extra>
  GlobalDef& def_packed(const char* name, F function, Extra&&... extra) {
    return Register(name, Function::FromPacked(std::move(function)),
                    ::tvm::ffi::detail::TypeSchema<Function>::v(), extra...);
  }
  /// From a member function: the object comes as the first argument.
  template <typename F, typename... Extra>
  GlobalDef& def_method(const char* name, F method, Extra&&... extra) {
    if constexpr (std::is_member_function_pointer_v<F>) {
      using Class = std::remove_pointer_t<decltype(detail::ClassOf(method))>;
      return def(name, detail::BindMethod<Class>(method), std::forward<Extra>(extra)...);
    } else {
      return def(name, std::move(method), std::forward<Extra>(extra)...);
    }
  }

 private:
  template <typename... Extra>
  GlobalDef& Register(const char* name, const Function& function, const std::string& schema,
                      const Extra&... extra) {
    MethodInfoBuilder info = detail::MethodRecord(name, function, /*is_static=*/false, schema);
    auto submit = [](const TVMFFIMethodInfo* record) {
      return TVMFFIFunctionSetGlobalFromMethodInfo(record, 0);
    };
    detail::SubmitRecord(&info, submit, extra...);
    return *this;
  }
};

/// Registers attributes of a type: values in a column of that name, indexed by type.
template <typename Class, typename = std::enable_if_t<is_object_subclass_v<Class>>>
class TypeAttrDef {
 public:
  template <typename... Extra>
  explicit TypeAttrDef(Extra&&...) {}

  /// A value, or a function: a member function takes the object as its first argument.
  template <typename F>
  TypeAttrDef& def(const char* name, F&& value) {
    using Decayed = std::decay_t<F>;
    if constexpr (std::is_same_v<Decayed, Any> || std::is_same_v<Decayed, AnyView> ||
                  TypeTraits<Decayed>::convert_enabled) {
      return attr(name, Decayed(std::forward<F>(value)));
    } else {
      auto function = detail::BindMethod<Class>(Decayed(std::forward<F>(value)));
      return attr(name, Function::FromTyped(std::move(function),
                                            std::string(Class::_type_key) + "." + name));
    }
  }
  template <typename T>
  TypeAttrDef& attr(const char* name, T value) {
    TVMFFIByteArray key = ToByteArray(name);
    TVMFFIAny view = AnyView(value).CopyToTVMFFIAny();
    TVM_FFI_CHECK_SAFE_CALL(
        TVMFFITypeRegisterAttr(Class::_GetOrAllocRuntimeTypeIndex(), &key, &view));
    return *this;
  }
  template <typename T, typename Value>
  TypeAttrDef& attr(AttrKey<T> key, Value&& value) {
    return attr(key.name, T(std::forward<Value>(value)));
  }
  /// A function known at compile time, as what the key's type makes of it.
  template <auto Fn, typename T>
  TypeAttrDef& native_fn_attr(AttrKey<T> key) {
    return attr(key, T::template FromNative<Fn>());
  }
  /// Lets the host language pass to a RefType parameter what converts to it.
  template <typename RefType>
  TypeAttrDef& def_convert() {
    return def(type_attr::kConvert.name, &detail::FFIConvertFromAnyViewToObjectRef<RefType>);
  }
};

/// Registers an object type: `ObjectDef<MyObj>().def_ro("x", &MyObj::x).def("get", &MyObj::Get)`.
template <typename Class>
class ObjectDef {
 public:
  /// extra: a documentation text; `init(false)` for a type that the host language does not make.
  template <typename... Extra>
  explicit ObjectDef(Extra&&... extra) : type_index_(Class::_GetOrAllocRuntimeTypeIndex()) {
    TVMFFITypeMetadata info{};
    info.doc = ToByteArray("");
    (ApplyToType(&info, extra), ...);
    info.creator = detail::CreatorOf<Class>();
    info.total_size = static_cast<int32_t>(sizeof(Class));
    info.structural_eq_hash_kind = Class::_type_s_eq_hash_kind;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterMetadata(type_index_, &info));
  }
  ObjectDef(const ObjectDef&) = delete;
  ObjectDef& operator=(const ObjectDef&) = delete;
  /// Registers what every type gets: how it is copied, made, and constructed by the host language.
  ~ObjectDef() noexcept(false) {
    TypeAttrDef<Class> attributes;
    if constexpr (std::is_copy_constructible_v<Class>) {
      attributes.def(type_attr::kShallowCopy.name,
                     [](const Class* self) { return ObjectRef(make_object<Class>(*self)); });
    }
    if (detail::CreatorOf<Class>() != nullptr) {
      attributes.def(type_attr::kNew.name, [index = type_index_]() {
        return ObjectRef(CreateEmptyObject(TVMFFIGetTypeInfo(index)));
      });
      if (!has_explicit_init_) RegisterDefaultInit();
    }
    attributes.attr(type_attr::kTypeFinal, Class::_type_final);
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
    has_explicit_init_ = true;
    auto make = &init<Args...>::template execute<Class>;
    RegisterMethod(type_attr::kInit.name, make, true, extra...);
    return def_type_attr(type_attr::kInit.name, make);
  }
  /// A value, or a function: a member function takes the object as its first argument.
  template <typename T>
  ObjectDef& def_type_attr(const char* name, T&& value) {
    TypeAttrDef<Class>().def(name, std::forward<T>(value));
    return *this;
  }
  /// Lets the host language pass to a RefType parameter what converts to it.
  template <typename RefType>
  ObjectDef& def_convert() {
    TypeAttrDef<Class>().template def_convert<RefType>();
    return *this;
  }

 private:
  template <typename>
  friend class OverloadObjectDef;

  void ApplyToType(TVMFFITypeMetadata* info, const char* doc) { info->doc = ToByteArray(doc); }
  void ApplyToType(TVMFFITypeMetadata*, const init<>& trait) {
    has_explicit_init_ = has_explicit_init_ || !trait.include;
  }
  template <typename Extra>
  void ApplyToType(TVMFFITypeMetadata*, const Extra&) {}

  /// Where the runtime makes a constructor out of the fields.
  void RegisterDefaultInit() {
    std::optional<Function> make = Function::GetGlobal("ffi._RegisterFFIInit");
    if (make.has_value()) (*make)(type_index_);
  }

  template <typename Base, typename T, typename... Extra>
  ObjectDef& RegisterField(const char* name, T Base::* field, bool writable,
                           const Extra&... extra) {
    static_assert(std::is_base_of_v<Base, Class>, "the field is of another class");
    FieldInfoBuilder info = detail::FieldRecord<Class>(name, field, writable);
    auto submit = [this](const TVMFFIFieldInfo* record) {
      return TVMFFITypeRegisterField(type_index_, record);
    };
    detail::SubmitRecord(&info, submit, extra...);
    return *this;
  }
  template <typename F, typename... Extra>
  ObjectDef& RegisterMethod(const char* name, F method, bool is_static, const Extra&... extra) {
    Function function =
        Function::FromTyped(std::move(method), std::string(Class::_type_key) + "." + name);
    return SubmitMethod(name, function, is_static, detail::FunctionInfo<F>::TypeSchema(), extra...);
  }
  template <typename... Extra>
  ObjectDef& SubmitMethod(const char* name, const Function& function, bool is_static,
                          const std::string& schema, const Extra&... extra) {
    MethodInfoBuilder info = detail::MethodRecord(name, function, is_static, schema);
    auto submit = [this](const TVMFFIMethodInfo* record) {
      return TVMFFITypeRegisterMethod(type_index_, record);
    };
    detail::SubmitRecord(&info, submit, extra...);
    return *this;
  }

  int32_t type_index_;
  bool has_explicit_init_ = false;
};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi

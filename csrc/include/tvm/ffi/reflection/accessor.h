// SPDX-License-Identifier: Apache-2.0
// Reading what was registered: fields, methods and attributes of types.
#pragma once

#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/native_function.h>
#include <tvm/ffi/reflection/type_attr.h>

#include <string>
#include <string_view>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {

namespace detail {
/// The field or method of that name; null if there is none.
template <typename Info>
const Info* FindByName(const Info* infos, int32_t count, std::string_view name) {
  for (const Info* info = infos; info != infos + count; ++info) {
    if (std::string_view(info->name.data, info->name.size) == name) return info;
  }
  return nullptr;
}
}  // namespace detail

/// The type's own field of that name. \throws Error(RuntimeError) if there is none
inline const TVMFFIFieldInfo* GetFieldInfo(std::string_view type_key, std::string_view name) {
  const TypeInfo* type = TVMFFIGetTypeInfo(TypeKeyToIndex(type_key));
  const TVMFFIFieldInfo* found = detail::FindByName(type->fields, type->num_fields, name);
  if (found == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "Cannot find field `" << name << "` in type `" << type_key
                                << "`";
  }
  return found;
}

/// The type's own method of that name. \throws Error(RuntimeError) if there is none
inline const TVMFFIMethodInfo* GetMethodInfo(std::string_view type_key, std::string_view name) {
  const TypeInfo* type = TVMFFIGetTypeInfo(TypeKeyToIndex(type_key));
  const TVMFFIMethodInfo* found = detail::FindByName(type->methods, type->num_methods, name);
  if (found == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "Cannot find method `" << name << "` in type `" << type_key
                                << "`";
  }
  return found;
}

inline Function GetMethod(std::string_view type_key, std::string_view name) {
  return AnyView::CopyFromTVMFFIAny(GetMethodInfo(type_key, name)->method).cast<Function>();
}

/// Sets the field at address through its setter. The result is a return code of the ABI.
inline int CallFieldSetter(const TVMFFIFieldInfo* field, void* address, const TVMFFIAny* value) {
  if (TVM_FFI_PREDICT_FALSE(field->setter == nullptr)) {
    std::string name(field->name.data, field->name.size);
    ::tvm::ffi::detail::SetSafeCallRaised(
        Error("TypeError", "field `" + name + "`: expected a setter, got none", ""));
    return -1;
  }
  if ((field->flags & kTVMFFIFieldFlagBitSetterIsFunctionObj) == 0) {
    return reinterpret_cast<TVMFFIFieldSetter>(field->setter)(address, value);
  }
  TVMFFIAny args[2] = {AnyView(address).CopyToTVMFFIAny(), *value};
  TVMFFIAny result{};
  int rc = TVMFFIFunctionCall(field->setter, args, 2, &result);
  Any owned = ::tvm::ffi::detail::AnyUnsafe::MoveTVMFFIAnyToAny(&result);
  return rc;
}

/// Sets the field at address to its default, which it must have. \throws what the setter or the
/// factory raised
inline void SetFieldToDefault(const TVMFFIFieldInfo* field, void* address) {
  Any value = AnyView::CopyFromTVMFFIAny(field->default_value_or_factory);
  if ((field->flags & kTVMFFIFieldFlagBitMaskDefaultFromFactory) != 0) {
    value = value.cast<Function>()();
  }
  TVMFFIAny view = AnyView(value).CopyToTVMFFIAny();
  TVM_FFI_CHECK_SAFE_CALL(CallFieldSetter(field, address, &view));
}

/// Reads one field of objects of one type.
class FieldGetter {
 public:
  explicit FieldGetter(const TVMFFIFieldInfo* info) : info_(info) {}
  FieldGetter(std::string_view type_key, std::string_view name)
      : FieldGetter(GetFieldInfo(type_key, name)) {}

  Any operator()(const Object* object) const {
    TVMFFIAny value{};
    auto* header = reinterpret_cast<char*>(::tvm::ffi::detail::ObjectUnsafe::GetHeader(object));
    TVM_FFI_CHECK_SAFE_CALL(info_->getter(header + info_->offset, &value));
    return ::tvm::ffi::detail::AnyUnsafe::MoveTVMFFIAnyToAny(&value);
  }
  Any operator()(const ObjectRef& ref) const { return (*this)(ref.get()); }
  template <typename T>
  Any operator()(const ObjectPtr<T>& pointer) const {
    return (*this)(static_cast<const Object*>(pointer.get()));
  }

 private:
  const TVMFFIFieldInfo* info_;
};

/// Writes one field of objects of one type, whether or not the host language may.
class FieldSetter {
 public:
  explicit FieldSetter(const TVMFFIFieldInfo* info) : info_(info) {}
  FieldSetter(std::string_view type_key, std::string_view name)
      : FieldSetter(GetFieldInfo(type_key, name)) {}

  void operator()(const Object* object, AnyView value) const {
    auto* header = reinterpret_cast<char*>(::tvm::ffi::detail::ObjectUnsafe::GetHeader(object));
    void* field = header + info_->offset;
    TVMFFIAny data = value.CopyToTVMFFIAny();
    TVM_FFI_CHECK_SAFE_CALL(CallFieldSetter(info_, field, &data));
  }
  void operator()(const ObjectRef& ref, AnyView value) const { (*this)(ref.get(), value); }
  template <typename T>
  void operator()(const ObjectPtr<T>& pointer, AnyView value) const {
    (*this)(static_cast<const Object*>(pointer.get()), value);
  }

 private:
  const TVMFFIFieldInfo* info_;
};

/// Calls f(const TVMFFIFieldInfo*) for each field, those of the parents first.
template <typename F>
void ForEachFieldInfo(const TypeInfo* type, F f) {
  for (int32_t depth = 0; depth <= type->type_depth; ++depth) {
    const TypeInfo* owner = depth < type->type_depth ? type->type_ancestors[depth] : type;
    for (int32_t i = 0; i < owner->num_fields; ++i) f(&owner->fields[i]);
  }
}

/// Like ForEachFieldInfo, until f gives true. True if it did.
template <typename F>
bool ForEachFieldInfoWithEarlyStop(const TypeInfo* type, F f) {
  bool stop = false;
  ForEachFieldInfo(type, [&](const TVMFFIFieldInfo* field) { stop = stop || f(field); });
  return stop;
}

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi

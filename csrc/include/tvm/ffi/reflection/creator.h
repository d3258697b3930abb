// SPDX-License-Identifier: Apache-2.0
// ObjectCreator: objects of a registered type from the values of their fields.
#pragma once

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/reflection/accessor.h>

#include <optional>
#include <string_view>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

namespace detail {
/// The type's own way to make an empty object: null if it has none.
inline std::optional<TypedFunction<ObjectRef()>> OptNewFunction(const TypeInfo* type) {
  const TVMFFIAny* attr = OptTypeAttr(type_attr::kNew.name, type->type_index);
  if (attr == nullptr) return std::nullopt;
  return type_attr::kNew.ValueFrom(AnyView::CopyFromTVMFFIAny(*attr));
}
}  // namespace detail

/// Whether CreateEmptyObject can make objects of the type.
inline bool HasCreator(const TypeInfo* type) {
  return (type->metadata != nullptr && type->metadata->creator != nullptr) ||
         detail::OptNewFunction(type).has_value();
}

/// An object whose fields are set afterwards. \throws Error(RuntimeError) if the type has no
/// creator
inline ObjectPtr<Object> CreateEmptyObject(const TypeInfo* type) {
  if (type->metadata != nullptr && type->metadata->creator != nullptr) {
    TVMFFIObjectHandle handle = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(type->metadata->creator(&handle));
    return detail::ObjectUnsafe::ObjectPtrFromOwned<Object>(handle);
  }
  if (auto make = detail::OptNewFunction(type)) {
    return detail::ObjectUnsafe::ObjectPtrFromObjectRef<Object>((*make)());
  }
  TVM_FFI_THROW(RuntimeError) << "Type `" << TypeIndexToTypeKey(type->type_index)
                              << "` does not support reflection creation"
                              << " (no native creator or __ffi_new__ type attr)";
  TVM_FFI_UNREACHABLE();
}

namespace reflection {

namespace detail {
/// The conversion that `def_convert<RefType>` registers.
template <typename RefType>
RefType FFIConvertFromAnyViewToObjectRef(AnyView input) {
  if (std::optional<RefType> converted = input.try_cast<RefType>()) return *std::move(converted);
  TVM_FFI_THROW(TypeError) << "Cannot cast from `" << input.GetTypeKey() << "` to `"
                           << TypeTraits<RefType>::TypeStr() << "`";
  TVM_FFI_UNREACHABLE();
}
}  // namespace detail
namespace details = detail;

class ObjectCreator {
 public:
  explicit ObjectCreator(std::string_view type_key)
      : ObjectCreator(TVMFFIGetTypeInfo(TypeKeyToIndex(type_key))) {}
  /// \throws Error(RuntimeError) if the type cannot be made this way
  explicit ObjectCreator(const TypeInfo* type) : type_(type) {
    if (!HasCreator(type)) {
      TVM_FFI_THROW(RuntimeError) << "type `" << TypeIndexToTypeKey(type->type_index)
                                  << "`: expected one that is created without arguments";
    }
  }

  /// \throws Error(TypeError) for a field that is missing and has no default, or one too many
  Any operator()(const Map<String, Any>& fields) const {
    ObjectPtr<Object> object = CreateEmptyObject(type_);
    size_t used = 0;
    ForEachFieldInfo(type_, [&](const TVMFFIFieldInfo* field) {
      String name(field->name);
      void* address = reinterpret_cast<char*>(object.get()) + field->offset;
      if (fields.count(name) != 0) {
        Any value = fields[name];
        TVMFFIAny view = AnyView(value).CopyToTVMFFIAny();
        TVM_FFI_CHECK_SAFE_CALL(CallFieldSetter(field, address, &view));
        ++used;
      } else if ((field->flags & kTVMFFIFieldFlagBitMaskHasDefault) != 0) {
        SetFieldToDefault(field, address);
      } else {
        TVM_FFI_THROW(TypeError) << "Required field `" << name << "` not set in type `"
                                 << TypeIndexToTypeKey(type_->type_index) << "`";
      }
    });
    if (used != fields.size()) ThrowUnknownField(fields);
    return ObjectRef(std::move(object));
  }

 private:
  void ThrowUnknownField(const Map<String, Any>& fields) const {
    for (const auto& pair : fields) {
      const String& name = pair.first;
      bool known = ForEachFieldInfoWithEarlyStop(
          type_, [&](const TVMFFIFieldInfo* field) { return String(field->name) == name; });
      if (!known) {
        TVM_FFI_THROW(TypeError) << "Type `" << TypeIndexToTypeKey(type_->type_index)
                                 << "` does not have field `" << name << "`";
      }
    }
  }

  const TypeInfo* type_;
};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// ObjectCreator: objects of a registered type from the values of their fields.
#pragma once

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/reflection/accessor.h>

#include <string_view>
#include <utility>

namespace tvm {
namespace ffi {
inline namespace graphffi_v1 {
namespace reflection {

class ObjectCreator {
 public:
  explicit ObjectCreator(std::string_view type_key)
      : ObjectCreator(TVMFFIGetTypeInfo(TypeKeyToIndex(type_key))) {}
  /// \throws Error(RuntimeError) if the type cannot be made this way
  explicit ObjectCreator(const TypeInfo* type) : type_(type) {
    if (type->metadata == nullptr || type->metadata->creator == nullptr) {
      TVM_FFI_THROW(RuntimeError) << "Type `" << TypeIndexToTypeKey(type->type_index)
                                  << "` has no default constructor";
    }
  }

  /// \throws Error(TypeError) for a field that is missing and has no default, or one too many
  Any operator()(const Map<String, Any>& fields) const {
    TVMFFIObjectHandle handle = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(type_->metadata->creator(&handle));
    auto object = ::tvm::ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<Object>(handle);
    size_t used = 0;
    ForEachFieldInfo(type_, [&](const TVMFFIFieldInfo* field) {
      String name(field->name);
      FieldSetter set(field);
      if (Optional<Any> value = fields.Get(name); fields.count(name) != 0) {
        set(object.get(), *value);
        ++used;
      } else if ((field->flags & kTVMFFIFieldFlagBitMaskDefaultFromFactory) != 0) {
        auto factory = AnyView::CopyFromTVMFFIAny(field->default_value_or_factory);
        set(object.get(), factory.cast<Function>()());
      } else if ((field->flags & kTVMFFIFieldFlagBitMaskHasDefault) != 0) {
        set(object.get(), AnyView::CopyFromTVMFFIAny(field->default_value_or_factory));
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
}  // namespace ffi
}  // namespace tvm

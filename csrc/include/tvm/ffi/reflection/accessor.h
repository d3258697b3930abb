// SPDX-License-Identifier: Apache-2.0
// Reading what was registered: fields, methods and attributes of types.
#pragma once

#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry_detail.h>

#include <string>
#include <string_view>
#include <utility>

namespace tvm {
namespace ffi {
inline namespace graphffi_v1 {
namespace reflection {

namespace detail {
inline bool SameText(const TVMFFIByteArray& a, std::string_view b) {
  return std::string_view(a.data, a.size) == b;
}
}  // namespace detail

/// The type's own field of that name. \throws Error(RuntimeError) if there is none
inline const TVMFFIFieldInfo* GetFieldInfo(std::string_view type_key, std::string_view name) {
  const TypeInfo* type = TVMFFIGetTypeInfo(TypeKeyToIndex(type_key));
  for (int32_t i = 0; i < type->num_fields; ++i) {
    if (detail::SameText(type->fields[i].name, name)) return &type->fields[i];
  }
  TVM_FFI_THROW(RuntimeError) << "Cannot find field `" << name << "` in type `" << type_key << "`";
}

/// The type's own method of that name. \throws Error(RuntimeError) if there is none
inline const TVMFFIMethodInfo* GetMethodInfo(std::string_view type_key, std::string_view name) {
  const TypeInfo* type = TVMFFIGetTypeInfo(TypeKeyToIndex(type_key));
  for (int32_t i = 0; i < type->num_methods; ++i) {
    if (detail::SameText(type->methods[i].name, name)) return &type->methods[i];
  }
  TVM_FFI_THROW(RuntimeError) << "Cannot find method `" << name << "` in type `" << type_key << "`";
}

inline Function GetMethod(std::string_view type_key, std::string_view name) {
  return AnyView::CopyFromTVMFFIAny(GetMethodInfo(type_key, name)->method).cast<Function>();
}

/// Where a field lies from the object's header.
template <typename Class, typename T>
int64_t GetFieldByteOffsetToObject(T Class::* field) {
  return detail::FieldOffset<Class>(field);
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
    if ((info_->flags & kTVMFFIFieldFlagBitSetterIsFunctionObj) != 0) {
      auto* function = static_cast<FunctionObj*>(static_cast<Object*>(info_->setter));
      AnyView args[2] = {AnyView(field), value};
      Any ignored;
      function->CallPacked(args, 2, &ignored);
      return;
    }
    TVMFFIAny data = value.CopyToTVMFFIAny();
    TVM_FFI_CHECK_SAFE_CALL(reinterpret_cast<TVMFFIFieldSetter>(info_->setter)(field, &data));
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

/// An attribute of types. \throws Error(RuntimeError) if nobody registered an attribute of that
/// name
class TypeAttrColumn {
 public:
  explicit TypeAttrColumn(std::string_view name) {
    TVMFFIByteArray key = ToByteArray(name);
    column_ = TVMFFIGetTypeAttrColumn(&key);
    if (column_ == nullptr) {
      TVM_FFI_THROW(RuntimeError) << "Cannot find type attribute " << name;
    }
  }
  /// None if the type has no such attribute.
  AnyView operator[](int32_t type_index) const {
    int64_t offset = static_cast<int64_t>(type_index) - column_->begin_index;
    if (offset < 0 || offset >= column_->size) return AnyView();
    return AnyView::CopyFromTVMFFIAny(column_->data[offset]);
  }

 private:
  const TVMFFITypeAttrColumn* column_;
};

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace ffi
}  // namespace tvm

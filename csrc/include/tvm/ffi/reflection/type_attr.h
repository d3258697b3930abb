// SPDX-License-Identifier: Apache-2.0
// AttrKey: the name of a type attribute together with the type of its values; the attributes that
// every type may have; TypeAttrColumn, which reads them.
#pragma once

#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/native_function.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {

constexpr TVMFFIByteArray AsByteArray(const char* text) {
  return {text, std::char_traits<char>::length(text)};
}

template <typename T>
struct AttrKey {
  using ValueType = T;
  const char* name;

  /// For what takes names.
  constexpr operator const char*() const { return name; }  // NOLINT(runtime/explicit)
  /// Nothing where a type does not have the attribute. \throws Error(TypeError)
  std::optional<T> ValueFrom(AnyView value) const {
    if (value == nullptr) return std::nullopt;
    return value.template as_or_throw<T>();
  }
};

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
  template <typename T>
  explicit TypeAttrColumn(AttrKey<T> key) : TypeAttrColumn(std::string_view(key.name)) {}

  /// None if the type has no such attribute.
  AnyView operator[](int32_t type_index) const {
    int64_t offset = static_cast<int64_t>(type_index) - column_->begin_index;
    if (offset < 0 || offset >= column_->size) return AnyView();
    return AnyView::CopyFromTVMFFIAny(column_->data[offset]);
  }

 private:
  const TVMFFITypeAttrColumn* column_;
};

/// Makes the column of an attribute exist before any type has it.
inline void EnsureTypeAttrColumn(std::string_view name) {
  TVMFFIByteArray key = ToByteArray(name);
  TVMFFIAny none{};
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterAttr(kTVMFFINone, &key, &none));
}
template <typename T>
void EnsureTypeAttrColumn(AttrKey<T> key) {
  EnsureTypeAttrColumn(std::string_view(key.name));
}

}  // namespace reflection

namespace type_attr {

/// Makes an object whose fields are set afterwards.
inline constexpr reflection::AttrKey<TypedFunction<ObjectRef()>> kNew{"__ffi_new__"};
/// The constructor of the host language.
inline constexpr reflection::AttrKey<Function> kInit{"__ffi_init__"};
/// Makes a reference of the type from what converts to it.
inline constexpr reflection::AttrKey<TypedFunction<Any(AnyView)>> kConvert{"__ffi_convert__"};
inline constexpr reflection::AttrKey<Any> kConvertTypeSchema{"__ffi_convert_type_schema__"};
inline constexpr reflection::AttrKey<TypedFunction<ObjectRef(const Object*)>> kShallowCopy{
    "__ffi_shallow_copy__"};
inline constexpr reflection::AttrKey<bool> kTypeFinal{"__ffi_type_final__"};
/// Hash and equality of the type's objects as keys of maps.
inline constexpr reflection::AttrKey<reflection::NativeFunctionView<int64_t(const Any&)>> kAnyHash{
    "__any_hash__"};
inline constexpr reflection::AttrKey<reflection::NativeFunctionView<bool(const Any&, const Any&)>>
    kAnyEqual{"__any_equal__"};

/// A type's own versions. They call the function that they get for what is inside.
inline constexpr reflection::AttrKey<
    TypedFunction<String(const Object*, const TypedFunction<String(AnyView)>&)>>
    kRepr{"__ffi_repr__"};
inline constexpr reflection::AttrKey<
    TypedFunction<int64_t(const Object*, const TypedFunction<int64_t(AnyView)>&)>>
    kHash{"__ffi_hash__"};
inline constexpr reflection::AttrKey<
    TypedFunction<bool(const Object*, const Object*, const TypedFunction<bool(AnyView, AnyView)>&)>>
    kEq{"__ffi_eq__"};
/// Negative, zero or positive.
inline constexpr reflection::AttrKey<TypedFunction<int32_t(
    const Object*, const Object*, const TypedFunction<int32_t(AnyView, AnyView)>&)>>
    kCompare{"__ffi_compare__"};

/// A type's own comparison. It calls the function that it gets for what is inside.
inline constexpr reflection::AttrKey<TypedFunction<bool(
    const Object*, const Object*, const TypedFunction<bool(AnyView, AnyView, int, AnyView)>&)>>
    kSEqual{"__s_equal__"};

/// A type's own hash. It calls the function that it gets for what is inside.
inline constexpr reflection::AttrKey<TypedFunction<int64_t(
    const Object*, int64_t, const TypedFunction<int64_t(AnyView, int64_t, int)>&)>>
    kSHash{"__s_hash__"};

/// A type's own JSON value, and how to make an object from it.
inline constexpr reflection::AttrKey<TypedFunction<Any(AnyView)>> kDataToJson{"__data_to_json__"};
inline constexpr reflection::AttrKey<TypedFunction<Any(AnyView)>> kDataFromJson{
    "__data_from_json__"};

}  // namespace type_attr

namespace reflection {
/// The spelling of sources that are older than the keys' types.
namespace type_attr = ::tvm::ffi::graphffi_v1::type_attr;
}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi

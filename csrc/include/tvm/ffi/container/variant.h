// SPDX-License-Identifier: Apache-2.0
// Variant<Types…>: a value of one of several types.
#pragma once

#include <tvm/ffi/container/container_detail.h>
#include <tvm/ffi/optional.h>

#include <string>
#include <type_traits>
#include <utility>

namespace tvm {
namespace ffi {
inline namespace graphffi_v1 {
namespace detail {

/// A variant of reference types is itself a reference; any other holds an Any.
template <bool kAllObjects>
class VariantBase {
 public:
  bool same_as(const VariantBase& other) const { return value_.same_as(other.value_); }

 protected:
  VariantBase() = default;
  explicit VariantBase(Any value) : value_(std::move(value)) {}
  Any ToAny() const& { return value_; }
  Any ToAny() && { return std::move(value_); }
  AnyView ToView() const { return value_; }

  Any value_;
};

template <>
class VariantBase<true> : public ObjectRef {
 protected:
  VariantBase() = default;
  explicit VariantBase(ObjectRef value) : ObjectRef(std::move(value)) {}
  Any ToAny() const { return Any(static_cast<const ObjectRef&>(*this)); }
  AnyView ToView() const { return AnyView(static_cast<const ObjectRef&>(*this)); }
};

}  // namespace detail

template <typename... Types>
class Variant : public detail::VariantBase<detail::all_object_ref_v<Types...>> {
  using Base = detail::VariantBase<detail::all_object_ref_v<Types...>>;
  static_assert(detail::all_storage_enabled_v<Types...>, "this type cannot be in a Variant");

 public:
  template <typename T>
  static constexpr bool variant_contains_v = (detail::type_contains_v<Types, T> || ...);
  template <typename T>
  using enable_if_variant_contains_t = std::enable_if_t<variant_contains_v<T>>;

  Variant(const Variant&) = default;
  Variant(Variant&&) = default;
  Variant& operator=(const Variant&) = default;
  Variant& operator=(Variant&&) = default;
  template <typename T, typename = enable_if_variant_contains_t<T>>
  Variant(T other) : Base(Wrap(std::move(other))) {}  // NOLINT(runtime/explicit)
  template <typename T, typename = enable_if_variant_contains_t<T>>
  Variant& operator=(T other) {
    return *this = Variant(std::move(other));
  }
  explicit Variant(UnsafeInit) {}

  /// The value if it is a T as it stands.
  template <typename T, typename = enable_if_variant_contains_t<T>>
  std::optional<T> as() const {
    return Any(this->ToView()).template as<T>();
  }
  /// The object if it is a T, null otherwise. Borrowed from this variant.
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>, typename = void>
  const T* as() const {
    return this->ToView().template as<T>();
  }
  /// \throws Error(TypeError) if it holds another type
  template <typename T, typename = enable_if_variant_contains_t<T>>
  T get() const& {
    return Any(this->ToView()).template cast<T>();
  }
  template <typename T, typename = enable_if_variant_contains_t<T>>
  T get() && {
    return std::move(*this).ToAny().template cast<T>();
  }
  std::string GetTypeKey() const { return this->ToView().GetTypeKey(); }
  int32_t type_index() const { return this->ToView().type_index(); }

 private:
  template <typename, typename>
  friend struct TypeTraits;

  template <typename T>
  static auto Wrap(T value) {
    if constexpr (detail::all_object_ref_v<Types...>) {
      return ObjectRef(std::move(value));
    } else {
      return Any(std::move(value));
    }
  }
};

template <typename... Types>
inline constexpr bool use_default_type_traits_v<Variant<Types...>> = false;

namespace detail {
template <typename... Types, typename T>
inline constexpr bool type_contains_v<Variant<Types...>, T> = (type_contains_v<Types, T> || ...);
template <typename... Types, typename... Other>
inline constexpr bool type_contains_v<Variant<Types...>, Variant<Other...>> =
    (type_contains_v<Variant<Types...>, Other> && ...);
}  // namespace detail

template <typename... Types>
struct TypeTraits<Variant<Types...>> : TypeTraitsBase {
  using Self = Variant<Types...>;
  static void CopyToAnyView(const Self& value, TVMFFIAny* out) {
    *out = value.ToView().CopyToTVMFFIAny();
  }
  static void MoveToAny(Self value, TVMFFIAny* out) {
    *out = detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value).ToAny());
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return (TypeTraits<Types>::CheckAnyStrict(source) || ...);
  }
  static Self CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return FromAny(Any(AnyView::CopyFromTVMFFIAny(*source)));
  }
  static Self MoveFromAnyAfterCheck(TVMFFIAny* source) {
    return FromAny(detail::AnyUnsafe::MoveTVMFFIAnyToAny(source));
  }
  /// As it stands if it is one of the types, else converted to the first type that it converts to.
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    std::optional<Self> result;
    (TryOne<Types>(source, &result) || ...);
    return result;
  }
  static std::string TypeStr() {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + detail::Type2Str<Types>::v()), ...);
    return "Variant<" + text + ">";
  }
  static std::string TypeSchema() {
    return detail::SchemaWithArgs("Variant", {detail::TypeSchema<Types>::v()...});
  }

 private:
  static Self FromAny(Any value) {
    Self result{UnsafeInit{}};
    if constexpr (detail::all_object_ref_v<Types...>) {
      static_cast<ObjectRef&>(result) = std::move(value).cast<ObjectRef>();
    } else {
      result.value_ = std::move(value);
    }
    return result;
  }
  template <typename T>
  static bool TryOne(const TVMFFIAny* source, std::optional<Self>* result) {
    std::optional<T> value = TypeTraits<T>::TryCastFromAnyView(source);
    if (value.has_value()) result->emplace(*std::move(value));
    return value.has_value();
  }
};

}  // namespace graphffi_v1
}  // namespace ffi
}  // namespace tvm

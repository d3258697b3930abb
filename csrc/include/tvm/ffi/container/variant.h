// SPDX-License-Identifier: Apache-2.0
// Variant<Types…>: a value of one of several types.
#pragma once

#include <tvm/ffi/container/container_detail.h>
#include <tvm/ffi/optional.h>

#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
/// Crosses the ABI as the value itself.
template <typename... Types>
class Variant {
  static_assert(detail::all_storage_enabled_v<Types...>, "this type cannot be in a Variant");

 public:
  template <typename T>
  static constexpr bool variant_contains_v = (type_subsumes_v<Types, T> || ...);
  template <typename T>
  using enable_if_variant_contains_t = std::enable_if_t<variant_contains_v<T>>;

  Variant(const Variant&) = default;
  Variant(Variant&&) = default;
  Variant& operator=(const Variant&) = default;
  Variant& operator=(Variant&&) = default;
  template <typename T, typename = enable_if_variant_contains_t<T>>
  Variant(T other) : value_(std::move(other)) {}  // NOLINT(runtime/explicit)
  template <typename T, typename = enable_if_variant_contains_t<T>>
  Variant& operator=(T other) {
    return *this = Variant(std::move(other));
  }
  explicit Variant(UnsafeInit) {}
  static constexpr bool _type_container_is_exact = false;

  /// Only where every type is a reference type.
  template <typename RefType = ObjectRef,
            typename = std::enable_if_t<std::is_same_v<RefType, ObjectRef> &&
                                        detail::all_object_ref_v<Types...>>>
  operator RefType() const {  // NOLINT(runtime/explicit)
    return value_.template cast<ObjectRef>();
  }

  /// The value if it is a T as it stands.
  template <typename T, typename = enable_if_variant_contains_t<T>>
  std::optional<T> as() const {
    return value_.template as<T>();
  }
  /// The object if it is a T, null otherwise. Borrowed from this variant.
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>, typename = void>
  const T* as() const {
    return value_.template as<T>();
  }
  /// \throws Error(TypeError) if it holds another type
  template <typename T, typename = enable_if_variant_contains_t<T>>
  T get() const& {
    return value_.template cast<T>();
  }
  template <typename T, typename = enable_if_variant_contains_t<T>>
  T get() && {
    return std::move(value_).template cast<T>();
  }
  bool same_as(const Variant& other) const { return value_.same_as(other.value_); }
  template <typename T>
  T as_or_throw() const& {
    return value_.template as_or_throw<T>();
  }
  template <typename T>
  T as_or_throw() && {
    return std::move(value_).template as_or_throw<T>();
  }
  std::string GetTypeKey() const { return value_.GetTypeKey(); }
  int32_t type_index() const { return value_.type_index(); }

 private:
  template <typename, typename>
  friend struct TypeTraits;

  Any value_;
};

template <typename... Types>
inline constexpr bool use_default_type_traits_v<Variant<Types...>> = false;

namespace detail {
template <typename... Types, typename T>
inline constexpr bool type_contains_v<Variant<Types...>, T> = (type_subsumes_v<Types, T> || ...);
template <typename... Types, typename... Other>
inline constexpr bool type_contains_v<Variant<Types...>, Variant<Other...>> =
    (type_subsumes_v<Variant<Types...>, Other> && ...);
}  // namespace detail

template <typename... Types>
struct TypeTraits<Variant<Types...>> : TypeTraitsBase {
  using Self = Variant<Types...>;
  static void CopyToAnyView(const Self& value, TVMFFIAny* out) {
    *out = AnyView(value.value_).CopyToTVMFFIAny();
  }
  static void MoveToAny(Self value, TVMFFIAny* out) {
    *out = detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value.value_));
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
  static std::string TypeStr() { return detail::TypeList<Types...>("Variant"); }
  static std::string TypeSchema() {
    return detail::SchemaWithArgs("Variant", {detail::TypeSchema<Types>::v()...});
  }

 private:
  static Self FromAny(Any value) {
    Self result{UnsafeInit{}};
    result.value_ = std::move(value);
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
}  // namespace tvm::ffi

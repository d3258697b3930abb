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

  template <typename T, typename = enable_if_variant_contains_t<T>>
  Variant(T other) : data_(std::move(other)) {}  // NOLINT(runtime/explicit)
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
    return data_.template cast<ObjectRef>();
  }

  /// The value if it is a T as it stands.
  template <typename T, typename = enable_if_variant_contains_t<T>>
  std::optional<T> as() const {
    return data_.template as<T>();
  }
  /// The object if it is a T, null otherwise. Borrowed from this variant.
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>, typename = void>
  const T* as() const {
    return data_.template as<T>();
  }
  /// \throws Error(TypeError) if it holds another type
  template <typename T, typename = enable_if_variant_contains_t<T>>
  T get() const& {
    return data_.template cast<T>();
  }
  template <typename T, typename = enable_if_variant_contains_t<T>>
  T get() && {
    return std::move(data_).template cast<T>();
  }
  bool same_as(const Variant& other) const { return data_.same_as(other.data_); }
  template <typename T>
  T as_or_throw() const& {
    return data_.template as_or_throw<T>();
  }
  template <typename T>
  T as_or_throw() && {
    return std::move(data_).template as_or_throw<T>();
  }
  std::string GetTypeKey() const { return data_.GetTypeKey(); }
  int32_t type_index() const { return data_.type_index(); }

 private:
  template <typename>
  friend struct detail::AnyHolderTraits;
  Variant(UnsafeInit, Any data) : data_(std::move(data)) {}

  Any data_;
};

template <typename... Types>
inline constexpr bool use_default_type_traits_v<Variant<Types...>> = false;

namespace detail {
template <typename... Types>
inline constexpr bool kIsAnyValue<Variant<Types...>> = true;
template <typename... Types, typename T>
inline constexpr bool type_contains_v<Variant<Types...>, T> = (type_subsumes_v<Types, T> || ...);
template <typename... Types, typename... Other>
inline constexpr bool type_contains_v<Variant<Types...>, Variant<Other...>> =
    (type_subsumes_v<Variant<Types...>, Other> && ...);
}  // namespace detail

template <typename... Types>
struct TypeTraits<Variant<Types...>> : detail::AnyHolderTraits<Variant<Types...>> {
  using Self = Variant<Types...>;
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return (TypeTraits<Types>::CheckAnyStrict(source) || ...);
  }
  /// As it stands if it is one of the types, else converted to the first type that it converts to.
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return TypeTraits::CopyFromAnyViewAfterCheck(source);
    std::optional<Self> result;
    (TryOne<Types>(source, &result) || ...);
    return result;
  }
  static std::string TypeStr() { return detail::TypeList<Types...>("Variant"); }
  static std::string TypeSchema() { return detail::SchemaOf<Types...>("Variant"); }

 private:
  template <typename T>
  static bool TryOne(const TVMFFIAny* source, std::optional<Self>* result) {
    std::optional<T> value = TypeTraits<T>::TryCastFromAnyView(source);
    if (value.has_value()) result->emplace(*std::move(value));
    return value.has_value();
  }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

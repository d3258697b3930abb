// SPDX-License-Identifier: Apache-2.0
// Optional<T>: a T or nothing. Crosses the ABI as the value or None.
#pragma once

#include <tvm/ffi/any.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

class BigInt;
template <typename T>
class Optional;

template <typename T>
inline constexpr bool is_optional_type_v = false;
template <typename T>
inline constexpr bool is_optional_type_v<Optional<T>> = true;

/// A reference or pointer type whose null stands for nothing: the optional is one pointer.
template <typename T>
inline constexpr bool use_ptr_based_optional_v =
    std::is_base_of_v<ObjectRef, T> && sizeof(T) == sizeof(ObjectRef);
template <typename T>
inline constexpr bool use_ptr_based_optional_v<ObjectPtr<T>> = true;
template <typename T>
inline constexpr bool use_ptr_based_optional_v<Arc<T>> = true;

namespace detail {

/// Where an Optional keeps its value.
template <typename T, typename = void>
class OptionalStorage {
 public:
  bool has() const { return value_.has_value(); }
  const T& get() const { return *value_; }
  T& get() { return *value_; }
  void set(T value) { value_.emplace(std::move(value)); }
  void clear() { value_.reset(); }

 private:
  std::optional<T> value_;
};

/// Numbers, enums, dtypes and devices: always initialised, and of the ABI's 16 bytes.
template <typename T>
class OptionalStorage<
    T, std::enable_if_t<std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> &&
                        sizeof(T) <= sizeof(int64_t)>> {
 public:
  bool has() const { return has_; }
  const T& get() const { return value_; }
  T& get() { return value_; }
  void set(T value) {
    has_ = true;
    value_ = value;
  }
  void clear() { has_ = false; }

 private:
  bool has_ = false;
  alignas(int64_t) T value_{};
};

template <typename T>
class OptionalStorage<T, std::enable_if_t<use_ptr_based_optional_v<T>>> {
 public:
  bool has() const {
    // Not through T's operators: expression types overload them.
    if constexpr (std::is_base_of_v<ObjectRef, T>) {
      return static_cast<const ObjectRef&>(value_).defined();
    } else {
      return value_ != nullptr;
    }
  }
  const T& get() const { return value_; }
  T& get() { return value_; }
  void set(T value) { value_ = std::move(value); }
  void clear() { value_ = Null(); }

 private:
  static T Null() {
    if constexpr (std::is_constructible_v<T, UnsafeInit>) {
      return T(UnsafeInit{});
    } else {
      return T(nullptr);
    }
  }
  T value_ = Null();
};

template <bool kPads>
struct OptionalPadding {};
template <>
struct OptionalPadding<true> {
  int64_t padding = 0;
};

/// An optional of one: nothing in either is nothing. Of the ABI's 16 bytes, as all but pointers.
template <typename T>
class OptionalStorage<T, std::enable_if_t<is_optional_type_v<T>>>
    : OptionalPadding<sizeof(T) <= sizeof(int64_t)> {
 public:
  bool has() const { return value_.has_value(); }
  const T& get() const { return value_; }
  T& get() { return value_; }
  void set(T value) { value_ = std::move(value); }
  void clear() { value_ = std::nullopt; }

 private:
  T value_;
};

/// Types that are the ABI's 16 bytes: strings, Variant, BigInt.
template <typename T>
inline constexpr bool kIsAnyValue = kIsText<T> || std::is_same_v<T, BigInt>;

/// In their own 16 bytes, None stands for nothing: modules return such optionals through their
/// vtable.
template <typename T>
class OptionalStorage<T, std::enable_if_t<kIsAnyValue<T>>> {
 public:
  bool has() const { return value_ != nullptr; }
  const T& get() const { return *reinterpret_cast<const T*>(&value_); }
  T& get() { return *reinterpret_cast<T*>(&value_); }
  void set(T value) { value_ = std::move(value); }
  void clear() { value_.reset(); }

 private:
  static_assert(sizeof(T) == sizeof(Any));
  Any value_;
};

}  // namespace detail

template <typename T>
class Optional {
 public:
  using value_type = T;

  Optional() = default;
  Optional(std::nullopt_t) {}  // NOLINT(runtime/explicit)
  Optional(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  explicit Optional(UnsafeInit) {}
  Optional(std::optional<T> other) {  // NOLINT(runtime/explicit)
    if (other.has_value()) storage_.set(*std::move(other));
  }
  template <typename U = T,
            typename = std::enable_if_t<std::is_convertible_v<U&&, T> &&
                                        !std::is_base_of_v<Optional, detail::RemoveCVRef<U>> &&
                                        !std::is_same_v<detail::RemoveCVRef<U>, std::optional<T>>>>
  Optional(U&& value) {  // NOLINT(runtime/explicit)
    Set(std::forward<U>(value));
  }
  template <
      typename U,
      typename = std::enable_if_t<std::is_convertible_v<const U&, T> && !std::is_same_v<T, U>>,
      typename = void>
  Optional(const Optional<U>& other) {  // NOLINT(runtime/explicit)
    if (other.has_value()) storage_.set(other.value());
  }

  Optional& operator=(std::nullopt_t) {
    storage_.clear();
    return *this;
  }
  Optional& operator=(std::nullptr_t) { return *this = std::nullopt; }
  template <typename U = T,
            typename = std::enable_if_t<std::is_convertible_v<U&&, T> &&
                                        !is_optional_type_v<detail::RemoveCVRef<U>>>>
  Optional& operator=(U&& value) {
    Set(std::forward<U>(value));
    return *this;
  }

  bool has_value() const { return storage_.has(); }
  explicit operator bool() const { return has_value(); }
  /// \throws Error(RuntimeError) if there is none
  const T& value() const& {
    RequireValue();
    return storage_.get();
  }
  /// Moves the value out and leaves nothing.
  T value() && {
    RequireValue();
    T value = std::move(storage_.get());
    storage_.clear();
    return value;
  }
  template <typename U = T>
  T value_or(U&& fallback) const {
    return has_value() ? storage_.get() : static_cast<T>(std::forward<U>(fallback));
  }
  /// Undefined without a value, as with std::optional.
  const T& operator*() const& { return storage_.get(); }
  T& operator*() & { return storage_.get(); }
  T operator*() && { return std::move(storage_.get()); }
  /// The object of a reference or pointer, null if there is none; else the value.
  auto operator->() const { return Arrow(storage_.get()); }
  auto operator->() { return Arrow(storage_.get()); }
  void reset() { storage_.clear(); }

  /// The value if it is a U as it stands, nothing (or null) otherwise.
  template <typename U>
  auto as() const {
    return AnyView(*this).template as<U>();
  }
  /// \throws Error(TypeError) if there is none, or of another type
  template <typename U>
  U as_or_throw() const& {
    return AnyView(*this).template as_or_throw<U>();
  }
  /// Moves the value out, or leaves it where it throws.
  template <typename U>
  U as_or_throw() && {
    if (!as<U>()) return AnyView(*this).template as_or_throw<U>();
    return Any(std::move(*this).value()).template as_or_throw<U>();
  }
  /// The object of a reference or pointer, null if there is none.
  template <typename U = T, typename = std::enable_if_t<use_ptr_based_optional_v<U>>>
  auto get() const {
    return storage_.get().get();
  }
  template <typename U = T, typename = std::enable_if_t<std::is_base_of_v<ObjectRef, U>>>
  bool defined() const {
    return has_value();
  }
  template <typename U = T, typename = std::enable_if_t<use_ptr_based_optional_v<U>>>
  int use_count() const {
    return has_value() ? storage_.get().use_count() : 0;
  }
  template <typename U = T, typename = std::enable_if_t<use_ptr_based_optional_v<U>>>
  bool unique() const {
    return use_count() == 1;
  }

  operator std::optional<T>() const {  // NOLINT(runtime/explicit)
    if (!has_value()) return std::nullopt;
    return storage_.get();
  }

  bool same_as(const Optional& other) const { return AnyView(*this).same_as(AnyView(other)); }
  template <typename U = T, typename = std::enable_if_t<std::is_base_of_v<ObjectRef, U>>>
  bool same_as(const ObjectRef& other) const {
    return get() == other.get();
  }
  bool operator==(const Optional& other) const {
    return has_value() == other.has_value() && (!has_value() || **this == *other);
  }
  bool operator!=(const Optional& other) const { return !(*this == other); }
  bool operator==(const std::optional<T>& other) const { return *this == Optional(other); }
  bool operator!=(const std::optional<T>& other) const { return !(*this == other); }
  bool operator==(std::nullopt_t) const { return !has_value(); }
  bool operator!=(std::nullopt_t) const { return has_value(); }
  bool operator==(std::nullptr_t) const { return !has_value(); }
  bool operator!=(std::nullptr_t) const { return has_value(); }
  template <typename U, typename = std::enable_if_t<!is_optional_type_v<U>>>
  auto operator==(const U& other) const -> decltype(std::declval<const T&>() == other, bool()) {
    return has_value() && storage_.get() == other;
  }
  template <typename U, typename = std::enable_if_t<!is_optional_type_v<U>>>
  auto operator!=(const U& other) const -> decltype(std::declval<const T&>() == other, bool()) {
    return !(*this == other);
  }

 private:
  /// An optional of an optional has nothing where the inner one has nothing: across the ABI both
  /// are None.
  void Set(T value) {
    if constexpr (is_optional_type_v<T>) {
      if (!value.has_value()) return storage_.clear();
    }
    storage_.set(std::move(value));
  }
  template <typename U>
  static auto Arrow(U& value) {
    if constexpr (use_ptr_based_optional_v<T>) {
      return value.get();
    } else {
      return &value;
    }
  }
  void RequireValue() const {
    if (TVM_FFI_PREDICT_FALSE(!has_value())) ThrowNoValue();
  }
  [[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE static void ThrowNoValue() {
    TVM_FFI_THROW(RuntimeError) << "Bad optional access: it has no value";
    TVM_FFI_UNREACHABLE();
  }

  detail::OptionalStorage<T> storage_;
};

template <typename T>
inline constexpr bool use_default_type_traits_v<Optional<T>> = false;

namespace detail {

/// Traits of an optional type: nothing is None.
template <typename Self, typename T>
struct OptionalTraits : TypeTraitsBase {
  static void CopyToAnyView(const Self& value, TVMFFIAny* out) {
    if (value.has_value()) {
      TypeTraits<T>::CopyToAnyView(*value, out);
    } else {
      *out = TVMFFIAny{};
    }
  }
  static void MoveToAny(Self value, TVMFFIAny* out) {
    if (value.has_value()) {
      TypeTraits<T>::MoveToAny(*std::move(value), out);
    } else {
      *out = TVMFFIAny{};
    }
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    // In place: gcc warns of copying the payload of an empty one.
    if (source->type_index == kTVMFFINone) return std::optional<Self>(std::in_place);
    std::optional<T> value = TypeTraits<T>::TryCastFromAnyView(source);
    if (!value.has_value()) return std::nullopt;
    return std::optional<Self>(std::in_place, *std::move(value));
  }
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    return TypeTraits<T>::GetMismatchTypeInfo(source);
  }
};

}  // namespace detail

template <typename T>
struct TypeTraits<Optional<T>> : detail::OptionalTraits<Optional<T>, T> {
  static constexpr bool storage_enabled = TypeTraits<T>::storage_enabled;
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFINone || TypeTraits<T>::CheckAnyStrict(source);
  }
  static Optional<T> CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return std::nullopt;
    return TypeTraits<T>::CopyFromAnyViewAfterCheck(source);
  }
  static Optional<T> MoveFromAnyAfterCheck(TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return std::nullopt;
    return TypeTraits<T>::MoveFromAnyAfterCheck(source);
  }
  static std::string TypeStr() { return "Optional<" + TypeTraits<T>::TypeStr() + ">"; }
  static std::string TypeSchema() { return detail::SchemaOf<T>("Optional"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

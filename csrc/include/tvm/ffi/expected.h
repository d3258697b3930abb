// SPDX-License-Identifier: Apache-2.0
// Expected<T>: a T or an Error, for code that does not throw. A function that returns one raises
// the error.
#pragma once

#include <tvm/ffi/function.h>

#include <string>
#include <type_traits>
#include <utility>

namespace tvm {
namespace ffi {
inline namespace graphffi_v1 {

/// An error on its way into an Expected.
template <typename E = Error>
class Unexpected {
 public:
  explicit Unexpected(E error) : error_(std::move(error)) {}
  const E& error() const& { return error_; }
  E error() && { return std::move(error_); }

 private:
  E error_;
};

template <typename E>
Unexpected(E) -> Unexpected<E>;

template <typename T>
class Expected {
  static_assert(!std::is_same_v<T, Error>, "an Expected of an Error is ambiguous");

 public:
  using value_type = T;
  using error_type = Error;

  template <typename U = T, typename = std::enable_if_t<
                                std::is_convertible_v<U&&, T> &&
                                !std::is_base_of_v<Error, detail::RemoveCVRef<U>> &&
                                !detail::ExpectedValue<detail::RemoveCVRef<U>>::kIsExpected>>
  Expected(U&& value) : data_(T(std::forward<U>(value))) {}  // NOLINT(runtime/explicit)
  Expected(Error error) : data_(std::move(error)) {}         // NOLINT(runtime/explicit)
  template <typename E>
  Expected(Unexpected<E> error) : data_(Error(std::move(error).error())) {}  // NOLINT
  template <typename U,
            typename = std::enable_if_t<!std::is_same_v<T, U> && !std::is_void_v<U> &&
                                        std::is_convertible_v<U, T>>,
            typename = void>
  Expected(const Expected<U>& other)  // NOLINT(runtime/explicit)
      : data_(other.is_ok() ? Any(T(other.value())) : Any(other.error())) {}

  bool is_ok() const { return !is_err(); }
  bool is_err() const { return data_.type_index() == kTVMFFIError; }
  bool has_value() const { return is_ok(); }
  explicit operator bool() const { return is_ok(); }
  int32_t type_index() const { return data_.type_index(); }
  /// \throws the error if there is one
  T value() const& {
    if (is_err()) throw error();
    return detail::AnyUnsafe::CopyFromAnyViewAfterCheck<T>(data_);
  }
  T value() && {
    if (is_err()) throw error();
    return detail::AnyUnsafe::MoveFromAnyAfterCheck<T>(std::move(data_));
  }
  T operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  /// \throws Error(RuntimeError) if there is none
  Error error() const {
    if (is_ok()) TVM_FFI_THROW(RuntimeError) << "Bad expected access: it holds a value";
    return data_.cast<Error>();
  }
  template <typename U = T>
  T value_or(U&& fallback) const {
    return is_ok() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  template <typename, typename>
  friend struct TypeTraits;
  Any data_;
};

template <>
class Expected<void> {
 public:
  using value_type = void;
  using error_type = Error;

  Expected() = default;
  Expected(Error error) : data_(std::move(error)) {}  // NOLINT(runtime/explicit)
  template <typename E>
  Expected(Unexpected<E> error) : data_(Error(std::move(error).error())) {}  // NOLINT

  bool is_ok() const { return !is_err(); }
  bool is_err() const { return data_.type_index() == kTVMFFIError; }
  bool has_value() const { return is_ok(); }
  explicit operator bool() const { return is_ok(); }
  int32_t type_index() const { return data_.type_index(); }
  void value() const {
    if (is_err()) throw error();
  }
  Error error() const {
    if (is_ok()) TVM_FFI_THROW(RuntimeError) << "Bad expected access: it holds a value";
    return data_.cast<Error>();
  }

 private:
  template <typename, typename>
  friend struct TypeTraits;
  Any data_;
};

template <typename T>
inline constexpr bool use_default_type_traits_v<Expected<T>> = false;

/// None where there is no error.
template <>
struct TypeTraits<Expected<void>> : TypeTraitsBase {
  static void CopyToAnyView(const Expected<void>& value, TVMFFIAny* out) {
    *out = AnyView(value.data_).CopyToTVMFFIAny();
  }
  static void MoveToAny(Expected<void> value, TVMFFIAny* out) {
    *out = detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value.data_));
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIError || source->type_index == kTVMFFINone;
  }
  static Expected<void> CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return {};
    return TypeTraits<Error>::CopyFromAnyViewAfterCheck(source);
  }
  static Expected<void> MoveFromAnyAfterCheck(TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return {};
    return TypeTraits<Error>::MoveFromAnyAfterCheck(source);
  }
  static std::optional<Expected<void>> TryCastFromAnyView(const TVMFFIAny* source) {
    if (!CheckAnyStrict(source)) return std::nullopt;
    return CopyFromAnyViewAfterCheck(source);
  }
  static std::string TypeStr() { return "Expected<void>"; }
  static std::string TypeSchema() {
    return detail::SchemaWithArgs(
        "Expected", {detail::SimpleSchema("None"), detail::SimpleSchema("ffi.Error")});
  }
};

template <typename T>
struct TypeTraits<Expected<T>> : TypeTraitsBase {
  static void CopyToAnyView(const Expected<T>& value, TVMFFIAny* out) {
    *out = AnyView(value.data_).CopyToTVMFFIAny();
  }
  static void MoveToAny(Expected<T> value, TVMFFIAny* out) {
    *out = detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value.data_));
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIError || TypeTraits<T>::CheckAnyStrict(source);
  }
  static Expected<T> CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIError) {
      return TypeTraits<Error>::CopyFromAnyViewAfterCheck(source);
    }
    return TypeTraits<T>::CopyFromAnyViewAfterCheck(source);
  }
  static Expected<T> MoveFromAnyAfterCheck(TVMFFIAny* source) {
    if (source->type_index == kTVMFFIError) return TypeTraits<Error>::MoveFromAnyAfterCheck(source);
    return TypeTraits<T>::MoveFromAnyAfterCheck(source);
  }
  static std::optional<Expected<T>> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIError) {
      return Expected<T>(TypeTraits<Error>::CopyFromAnyViewAfterCheck(source));
    }
    std::optional<T> value = TypeTraits<T>::TryCastFromAnyView(source);
    if (!value.has_value()) return std::nullopt;
    return Expected<T>(*std::move(value));
  }
  static std::string TypeStr() { return "Expected<" + detail::Type2Str<T>::v() + ">"; }
  static std::string TypeSchema() {
    return detail::SchemaWithArgs("Expected",
                                  {detail::TypeSchema<T>::v(), detail::SimpleSchema("ffi.Error")});
  }
};

template <typename T, typename... Args>
Expected<T> Function::CallExpected(Args&&... args) const {
  constexpr size_t kCount = sizeof...(Args);
  AnyView views[kCount == 0 ? 1 : kCount];
  PackedArgs::Fill(views, std::forward<Args>(args)...);
  TVMFFIAny result{};
  const FunctionObj* function = NotNull();
  int rc = function->safe_call(detail::ObjectUnsafe::GetHeader(function),
                               reinterpret_cast<const TVMFFIAny*>(views),
                               static_cast<int32_t>(kCount), &result);
  if (rc == -2) return Error(EnvErrorAlreadySet());
  if (rc != 0) return detail::MoveFromSafeCallRaised();
  Any owned = detail::AnyUnsafe::MoveTVMFFIAnyToAny(&result);
  if constexpr (std::is_void_v<T>) {
    return Expected<void>();
  } else if constexpr (std::is_same_v<T, Any>) {
    return owned;
  } else {
    std::optional<T> value = owned.template try_cast<T>();
    if (value.has_value()) return *std::move(value);
    return Error("TypeError",
                 "Cannot convert from type `" + detail::AnyUnsafe::GetMismatchTypeInfo<T>(owned) +
                     "` to `" + TypeTraits<T>::TypeStr() + "`",
                 "");
  }
}

}  // namespace graphffi_v1
}  // namespace ffi
}  // namespace tvm

// SPDX-License-Identifier: Apache-2.0
// Expected<T>: a T or an Error, for code that does not throw. A function that returns one raises
// the error.
#pragma once

#include <tvm/ffi/function.h>

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// An error on its way into an Expected.
template <typename E = Error>
class Unexpected {
  static_assert(std::is_base_of_v<Error, E>, "an Expected holds an Error");

 public:
  explicit Unexpected(E error) : error_(std::move(error)) {}
  const E& error() const& noexcept { return error_; }
  E& error() & noexcept { return error_; }
  E&& error() && noexcept { return std::move(error_); }

 private:
  E error_;
};

template <typename E>
Unexpected(E) -> Unexpected<E>;

namespace detail {

struct ExpectedUnsafe;

template <typename T>
inline constexpr bool is_expected_v = ExpectedValue<T>::kIsExpected;
template <typename T>
inline constexpr bool is_unexpected_v = false;
template <typename E>
inline constexpr bool is_unexpected_v<Unexpected<E>> = true;

template <typename Derived, typename Base>
inline constexpr bool type_contains_v<Expected<Derived>, Expected<Base>> =
    type_subsumes_v<Derived, Base>;

/// The base of every Expected: a value (None for void) or an error.
class ExpectedBase {
 public:
  using error_type = Error;

  bool is_ok() const noexcept { return !is_err(); }
  bool is_err() const noexcept { return data_.type_index() == kTVMFFIError; }
  bool has_value() const noexcept { return is_ok(); }
  explicit operator bool() const noexcept { return is_ok(); }
  int32_t type_index() const noexcept { return data_.type_index(); }
  /// \throws Error(RuntimeError) if there is none
  Error error() const& {
    RequireError();
    return AnyUnsafe::CopyFromAnyViewAfterCheck<Error>(data_);
  }
  Error error() && {
    RequireError();
    return AnyUnsafe::MoveFromAnyAfterCheck<Error>(std::move(data_));
  }

 protected:
  template <typename>
  friend struct AnyHolderTraits;
  friend struct ExpectedUnsafe;

  ExpectedBase() = default;
  explicit ExpectedBase(Any data) : data_(std::move(data)) {}

  TVM_FFI_INLINE void ThrowIfError() const {
    if (TVM_FFI_PREDICT_FALSE(is_err())) throw error();
  }
  void RequireError() const {
    if (is_ok()) TVM_FFI_THROW(RuntimeError) << "Bad expected access: contains value, not error";
  }

  Any data_;
};

}  // namespace detail

template <typename T>
class Expected : public detail::ExpectedBase {
  static_assert(!std::is_same_v<T, Error>, "an Expected of an Error is ambiguous");

 public:
  using value_type = T;

  template <typename U = T,
            typename = std::enable_if_t<std::is_convertible_v<U&&, T> &&
                                        !std::is_base_of_v<Error, detail::RemoveCVRef<U>> &&
                                        !detail::is_unexpected_v<detail::RemoveCVRef<U>> &&
                                        !detail::is_expected_v<detail::RemoveCVRef<U>>>>
  Expected(U&& value) : ExpectedBase(Any(T(std::forward<U>(value)))) {}  // NOLINT
  Expected(Error error) : ExpectedBase(Any(std::move(error))) {}         // NOLINT
  template <typename E>
  Expected(Unexpected<E> error)  // NOLINT(runtime/explicit)
      : ExpectedBase(Any(Error(std::move(error).error()))) {}
  template <typename U,
            typename = std::enable_if_t<!std::is_same_v<T, U> && !std::is_void_v<U> &&
                                        (type_subsumes_v<T, U> || std::is_convertible_v<U, T>)>>
  Expected(Expected<U> other)  // NOLINT(runtime/explicit)
      : ExpectedBase(Convert(std::move(other))) {}

  /// \throws the error if there is one
  T value() const& {
    ThrowIfError();
    return detail::AnyUnsafe::CopyFromAnyViewAfterCheck<T>(data_);
  }
  T value() && {
    ThrowIfError();
    return detail::AnyUnsafe::MoveFromAnyAfterCheck<T>(std::move(data_));
  }
  T operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  template <typename U = std::remove_cv_t<T>>
  T value_or(U&& fallback) const& {
    return is_ok() ? value() : T(std::forward<U>(fallback));
  }
  template <typename U = std::remove_cv_t<T>>
  T value_or(U&& fallback) && {
    return is_ok() ? std::move(*this).value() : T(std::forward<U>(fallback));
  }

  /// The same as an Expected of a U: with a TypeError if the value is not one as it stands.
  template <typename U,
            typename = std::enable_if_t<!std::is_base_of_v<Error, U> &&
                                        (TypeTraits<U>::storage_enabled || std::is_same_v<U, Any>)>>
  Expected<U> as_or_error() const& {
    return Expected(*this).template as_or_error<U>();
  }
  template <typename U,
            typename = std::enable_if_t<!std::is_base_of_v<Error, U> &&
                                        (TypeTraits<U>::storage_enabled || std::is_same_v<U, Any>)>>
  Expected<U> as_or_error() && {
    if (TVM_FFI_PREDICT_FALSE(is_ok() && !detail::AnyUnsafe::CheckAnyStrict<U>(data_))) {
      return Error("TypeError",
                   "Cannot treat type `" + data_.GetTypeKey() + "` as type `" +
                       detail::Type2Str<U>::v() + "`",
                   "");
    }
    return Expected<U>(UnsafeInit{}, std::move(data_));
  }

 private:
  template <typename>
  friend class Expected;
  template <typename>
  friend struct detail::AnyHolderTraits;
  friend struct detail::ExpectedUnsafe;

  /// data: a T or an Error, unchecked.
  Expected(UnsafeInit, Any data) : ExpectedBase(std::move(data)) {}
  template <typename U>
  static Any Convert(Expected<U> other) {
    if (type_subsumes_v<T, U> || other.is_err()) return std::move(other.data_);
    if constexpr (std::is_convertible_v<U, T>) return Any(T(std::move(other).value()));
    TVM_FFI_UNREACHABLE();
  }
};

template <>
class Expected<void> : public detail::ExpectedBase {
 public:
  using value_type = void;

  Expected() = default;
  Expected(Error error) : ExpectedBase(Any(std::move(error))) {}  // NOLINT(runtime/explicit)
  template <typename E>
  Expected(Unexpected<E> error)  // NOLINT(runtime/explicit)
      : ExpectedBase(Any(Error(std::move(error).error()))) {}

  /// \throws the error if there is one
  void value() const { ThrowIfError(); }

 private:
  template <typename>
  friend struct detail::AnyHolderTraits;
  friend struct detail::ExpectedUnsafe;
  Expected(UnsafeInit, Any data) : ExpectedBase(std::move(data)) {}
};

namespace detail {

/// Between Expected and the raw value that it holds, unchecked.
struct ExpectedUnsafe {
  /// Takes raw over: a T (None for void) or an Error.
  template <typename T>
  static Expected<T> MoveFromTVMFFIAny(TVMFFIAny raw) {
    return Expected<T>(UnsafeInit{}, AnyUnsafe::MoveTVMFFIAnyToAny(&raw));
  }
  template <typename T>
  static TVMFFIAny MoveToTVMFFIAny(Expected<T>&& result) {
    return AnyUnsafe::MoveAnyToTVMFFIAny(std::move(result.data_));
  }
  template <typename T>
  static Any&& GetData(Expected<T>& result) noexcept {
    return std::move(result.data_);
  }
  template <typename T>
  static const Any& GetData(const Expected<T>& result) noexcept {
    return result.data_;
  }
  /// The value as a T, which it must be. \throws the error if there is one
  template <typename T, typename U>
  static T ValueAs(const Expected<U>& result) {
    result.ThrowIfError();
    if constexpr (!std::is_void_v<T>) return AnyUnsafe::CopyFromAnyViewAfterCheck<T>(result.data_);
  }
};

/// The value that fn returns, or the error that it throws.
template <typename R, typename Fn>
Expected<R> CatchAsExpected(Fn&& fn) noexcept {
  try {
    return fn();
  } catch (const Error& error) {
    return Unexpected(error);
  } catch (const std::exception& error) {
    return Error("InternalError", error.what(), "");
  }
}

}  // namespace detail

template <typename T>
inline constexpr bool use_default_type_traits_v<Expected<T>> = false;

/// The value or the error; None for a value of no type.
template <typename T>
struct TypeTraits<Expected<T>> : detail::AnyHolderTraits<Expected<T>> {
  using Value = TypeTraits<std::conditional_t<std::is_void_v<T>, std::nullptr_t, T>>;
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIError || Value::CheckAnyStrict(source);
  }
  static std::optional<Expected<T>> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIError) return TypeTraits::CopyFromAnyViewAfterCheck(source);
    auto value = Value::TryCastFromAnyView(source);
    if (!value.has_value()) return std::nullopt;
    if constexpr (std::is_void_v<T>) {
      return Expected<T>();
    } else {
      return Expected<T>(*std::move(value));
    }
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
}  // namespace tvm::ffi

#include <tvm/ffi/expected_check.h>  // IWYU pragma: export

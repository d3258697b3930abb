// SPDX-License-Identifier: Apache-2.0
// UnchangedOr<T>: what a structural mutation makes of a value: another one, or itself.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/expected.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

template <typename T>
class UnchangedOr;

/// Says that a value stays as it is. Crosses the ABI as a type index of its own, since None is a
/// value.
struct Unchanged {
  TVMFFIAny CopyToTVMFFIAny() const noexcept {
    TVMFFIAny raw{};
    raw.type_index = kTVMFFIUnchanged;
    return raw;
  }
  operator Any() const noexcept {  // NOLINT(runtime/explicit)
    return detail::AnyUnsafe::MoveTVMFFIAnyToAny(CopyToTVMFFIAny());
  }
};

namespace detail {

struct UnchangedOrUnsafe;

template <typename T>
inline constexpr bool is_unchanged_or_v = false;
template <typename T>
inline constexpr bool is_unchanged_or_v<UnchangedOr<T>> = true;
template <typename T, typename U>
inline constexpr bool type_contains_v<UnchangedOr<T>, UnchangedOr<U>> = type_subsumes_v<T, U>;

/// Values that become the T of an UnchangedOr, and are no wrapper of one themselves.
template <typename T, typename U>
inline constexpr bool is_replacement_v =
    std::is_convertible_v<U, T> && !std::is_same_v<RemoveCVRef<U>, Unchanged> &&
    !std::is_same_v<RemoveCVRef<U>, T> && !is_unchanged_or_v<RemoveCVRef<U>> &&
    !is_expected_v<RemoveCVRef<U>> && !is_unexpected_v<RemoveCVRef<U>> &&
    !std::is_base_of_v<Error, RemoveCVRef<U>>;

}  // namespace detail

/// The accessors of the value take it out, so that it leaves once.
template <typename T>
class UnchangedOr {
  static_assert(!std::is_base_of_v<Error, std::remove_cv_t<T>>, "errors are Expected's");

 public:
  UnchangedOr(Unchanged unchanged) noexcept : data_(unchanged) {}  // NOLINT(runtime/explicit)
  UnchangedOr(T value) : data_(std::move(value)) {}                // NOLINT(runtime/explicit)
  template <typename U, typename = std::enable_if_t<detail::is_replacement_v<T, U>>>
  UnchangedOr(U&& value) : data_(T(std::forward<U>(value))) {}  // NOLINT(runtime/explicit)
  template <typename U,
            typename = std::enable_if_t<!std::is_same_v<T, U> &&
                                        (type_subsumes_v<T, U> || std::is_convertible_v<U, T>)>>
  UnchangedOr(UnchangedOr<U> other) : data_(Convert(std::move(other))) {}  // NOLINT

  bool IsUnchanged() const& noexcept { return data_.type_index() == kTVMFFIUnchanged; }
  /// Unchanged, or the very object that original is, whatever happened to it inside.
  bool UnchangedOrSameAs(const T& original) const& noexcept {
    return IsUnchanged() || AnyView(data_).same_as(AnyView(original));
  }
  /// The value, or original where it is unchanged.
  T ValueOrUnchanged(const T& original) && {
    return IsUnchanged() ? original : std::move(*this).ValueUnchecked();
  }
  T ValueOrUnchanged(T&& original) && {
    return IsUnchanged() ? std::move(original) : std::move(*this).ValueUnchecked();
  }
  template <typename U = T, typename = std::enable_if_t<std::is_same_v<U, Any>>>
  Any ValueOrUnchanged(AnyView original) && {
    return IsUnchanged() ? Any(original) : std::move(*this).ValueUnchecked();
  }
  /// The value, which there must be.
  T ValueUnchecked() && { return detail::AnyUnsafe::MoveFromAnyAfterCheck<T>(std::move(data_)); }

  /// The content, if that is a U as it stands. U may be an UnchangedOr, too.
  template <typename U>
  std::optional<U> as() && {
    return std::move(data_).template as<U>();
  }
  /// \throws Error(TypeError) if it is none
  template <typename U>
  U as_or_throw() && {
    return std::move(data_).template as_or_throw<U>();
  }

 private:
  template <typename>
  friend class UnchangedOr;
  template <typename>
  friend struct detail::AnyHolderTraits;
  friend struct detail::UnchangedOrUnsafe;

  UnchangedOr(UnsafeInit, Any data) noexcept : data_(std::move(data)) {}
  template <typename U>
  static Any Convert(UnchangedOr<U> other) {
    if (type_subsumes_v<T, U> || other.IsUnchanged()) return std::move(other.data_);
    if constexpr (std::is_convertible_v<U, T>) return Any(T(std::move(other).ValueUnchecked()));
    TVM_FFI_UNREACHABLE();
  }

  Any data_;
};

namespace detail {
/// Between UnchangedOr and the raw value that it holds, unchecked.
struct UnchangedOrUnsafe {
  template <typename T>
  static UnchangedOr<T> MoveFromTVMFFIAny(TVMFFIAny raw) {
    return UnchangedOr<T>(UnsafeInit{}, AnyUnsafe::MoveTVMFFIAnyToAny(&raw));
  }
  template <typename T>
  static TVMFFIAny MoveToTVMFFIAny(UnchangedOr<T>&& result) noexcept {
    return AnyUnsafe::MoveAnyToTVMFFIAny(std::move(result.data_));
  }
};
}  // namespace detail

template <typename T>
inline constexpr bool use_default_type_traits_v<UnchangedOr<T>> = false;

template <typename T>
struct TypeTraits<UnchangedOr<T>> : detail::AnyHolderTraits<UnchangedOr<T>> {
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIUnchanged) return true;
    if constexpr (std::is_same_v<T, Any>) return source->type_index != kTVMFFIError;
    return TypeTraits<T>::CheckAnyStrict(source);
  }
  static std::optional<UnchangedOr<T>> TryCastFromAnyView(const TVMFFIAny* source) {
    if (!CheckAnyStrict(source)) return std::nullopt;
    return TypeTraits::CopyFromAnyViewAfterCheck(source);
  }
  static std::string TypeStr() { return "UnchangedOr<" + detail::Type2Str<T>::v() + ">"; }
  static std::string TypeSchema() { return detail::SchemaOf<T>("UnchangedOr"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// NativeFunctionView and NativeFunction: a typed function of the ABI that is either a plain C++
// function, called without packing its arguments, or a Function object.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/expected.h>
#include <tvm/ffi/function.h>

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {
namespace detail {

/// Parameters that cross libraries as they are: references as pointers, other types by value.
template <typename T>
inline constexpr bool kIsNativeParameter =
    std::is_lvalue_reference_v<T> ||
    (std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>);

/// The value that fn returns or the error that it throws, as the raw value that crosses the ABI.
template <typename R, typename Fn, typename... Args>
TVMFFIAny RunNative(Fn fn, Args&&... args) noexcept {
  using ::tvm::ffi::detail::ExpectedUnsafe;
  return ExpectedUnsafe::MoveToTVMFFIAny(
      ::tvm::ffi::detail::CatchAsExpected<R>([&]() -> Expected<R> {
        if constexpr (std::is_void_v<decltype(fn(std::forward<Args>(args)...))>) {
          fn(std::forward<Args>(args)...);
          return {};
        } else {
          return fn(std::forward<Args>(args)...);
        }
      }));
}

/// A packed result as the typed one. A function may also return the Error instead of raising it.
template <typename R>
Expected<R> FromPacked(Expected<Any> packed) {
  if (packed.is_err()) return std::move(packed).error();
  Any value = *std::move(packed);
  if constexpr (std::is_same_v<R, Any>) {
    return value;
  } else if constexpr (std::is_void_v<R>) {
    if (value == nullptr) return {};
  } else if (std::optional<R> typed = value.try_cast<R>()) {
    return *std::move(typed);
  }
  return Error("TypeError", "Packed hook result type mismatch", "");
}

}  // namespace detail

template <typename Signature>
class NativeFunctionView;
template <typename Signature>
class NativeFunction;

/// Borrows a function. The native form is `TVMFFIAny (*)(Args...) noexcept`, whose result is a
/// value or an Error object.
template <typename R, typename... Args>
class NativeFunctionView<R(Args...)> {
  static_assert((detail::kIsNativeParameter<Args> && ...),
                "parameters are lvalue references or plain values");
  template <typename T>
  static constexpr bool kIsResult = std::is_same_v<T, R> || std::is_same_v<T, Expected<R>>;

 public:
  using ABIType = TVMFFIAny (*)(Args...) noexcept;

  NativeFunctionView() = delete;
  NativeFunctionView(std::nullptr_t) = delete;
  /// \throws Error(ValueError) if packed is null
  template <typename T, typename = std::enable_if_t<kIsResult<T>>>
  NativeFunctionView(const TypedFunction<T(Args...)>& packed)  // NOLINT(runtime/explicit)
      : data_(AnyView(packed.packed()).CopyToTVMFFIAny()) {
    TVM_FFI_CHECK(packed != nullptr, ValueError)
        << "NativeFunctionView requires a non-null typed function";
  }
  template <typename T, typename = std::enable_if_t<kIsResult<T>>>
  NativeFunctionView(const TypedFunction<T(Args...)>&& dangling) = delete;

  /// Of a function known at compile time, `R(Args...)` or `Expected<R>(Args...)`.
  template <auto Fn>
  static NativeFunctionView FromNative() {
    TVMFFIAny data{};
    data.type_index = kTVMFFIOpaquePtr;
    data.v_ptr = reinterpret_cast<void*>(static_cast<ABIType>(Call<Fn>));
    return NativeFunctionView(UnsafeInit{}, data);
  }

  Expected<R> CallExpected(Args... args) const noexcept {
    if (TVM_FFI_PREDICT_TRUE(data_.type_index == kTVMFFIOpaquePtr)) {
      auto native = reinterpret_cast<ABIType>(data_.v_ptr);
      return ::tvm::ffi::detail::ExpectedUnsafe::MoveFromTVMFFIAny<R>(
          native(std::forward<Args>(args)...));
    }
    auto function = AnyView::CopyFromTVMFFIAny(data_).template cast<Function>();
    return detail::FromPacked<R>(function.CallExpected<Any>(std::forward<Args>(args)...));
  }
  /// \throws the error, if that is the result
  R operator()(Args... args) const { return CallExpected(std::forward<Args>(args)...).value(); }

 private:
  template <typename, typename>
  friend struct ::tvm::ffi::graphffi_v1::TypeTraits;
  template <typename>
  friend class NativeFunction;

  NativeFunctionView(UnsafeInit, TVMFFIAny data) : data_(data) {}
  template <auto Fn>
  static TVMFFIAny Call(Args... args) noexcept {
    return detail::RunNative<R>(Fn, std::forward<Args>(args)...);
  }

  TVMFFIAny data_;
};

/// Owns the function.
template <typename R, typename... Args>
class NativeFunction<R(Args...)> {
 public:
  using View = NativeFunctionView<R(Args...)>;

  explicit NativeFunction(View view) : data_(AnyView(view)) {}
  template <typename T,
            typename = std::enable_if_t<std::is_same_v<T, R> || std::is_same_v<T, Expected<R>>>>
  NativeFunction(const TypedFunction<T(Args...)>& packed)  // NOLINT(runtime/explicit)
      : NativeFunction(View(packed)) {}
  static NativeFunction From(View view) { return NativeFunction(view); }
  template <auto Fn>
  static NativeFunction FromNative() {
    return NativeFunction(View::template FromNative<Fn>());
  }

  Expected<R> CallExpected(Args... args) const noexcept {
    return AsView().CallExpected(std::forward<Args>(args)...);
  }
  /// \throws the error, if that is the result
  R operator()(Args... args) const { return CallExpected(std::forward<Args>(args)...).value(); }

 private:
  friend struct ::tvm::ffi::detail::AnyHolderTraits<NativeFunction>;

  NativeFunction(UnsafeInit, Any data) : data_(std::move(data)) {}
  View AsView() const { return View(UnsafeInit{}, AnyView(data_).CopyToTVMFFIAny()); }

  Any data_;
};

}  // namespace reflection

template <typename Signature>
inline constexpr bool use_default_type_traits_v<reflection::NativeFunctionView<Signature>> = false;
template <typename Signature>
inline constexpr bool use_default_type_traits_v<reflection::NativeFunction<Signature>> = false;

template <typename Signature>
struct TypeTraits<reflection::NativeFunctionView<Signature>> : TypeTraitsBase {
  using View = reflection::NativeFunctionView<Signature>;

  static void CopyToAnyView(const View& value, TVMFFIAny* out) { *out = value.data_; }
  static void MoveToAny(View value, TVMFFIAny* out) {
    *out = detail::AnyUnsafe::MoveAnyToTVMFFIAny(Any(AnyView::CopyFromTVMFFIAny(value.data_)));
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return (source->type_index == kTVMFFIOpaquePtr && source->v_ptr != nullptr) ||
           source->type_index == kTVMFFIFunction;
  }
  static View CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return View(UnsafeInit{}, *source);
  }
  static View MoveFromAnyAfterCheck(TVMFFIAny* source) { return View(UnsafeInit{}, *source); }
  static std::optional<View> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    return std::nullopt;
  }
  static std::string TypeStr() {
    return "Variant<" + TypeTraits<void*>::TypeStr() + ", " +
           TypeTraits<TypedFunction<Signature>>::TypeStr() + ">";
  }
  static std::string TypeSchema() {
    return detail::SchemaWithArgs("Variant", {TypeTraits<void*>::TypeSchema(),
                                              TypeTraits<TypedFunction<Signature>>::TypeSchema()});
  }
};

template <typename Signature>
struct TypeTraits<reflection::NativeFunction<Signature>>
    : detail::AnyHolderTraits<reflection::NativeFunction<Signature>> {
  using Owner = reflection::NativeFunction<Signature>;
  using ViewTraits = TypeTraits<typename Owner::View>;

  static bool CheckAnyStrict(const TVMFFIAny* source) { return ViewTraits::CheckAnyStrict(source); }
  static std::optional<Owner> TryCastFromAnyView(const TVMFFIAny* source) {
    if (!CheckAnyStrict(source)) return std::nullopt;
    return TypeTraits::CopyFromAnyViewAfterCheck(source);
  }
  static std::string TypeStr() { return ViewTraits::TypeStr(); }
  static std::string TypeSchema() { return ViewTraits::TypeSchema(); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

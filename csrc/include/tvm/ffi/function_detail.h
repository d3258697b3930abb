// SPDX-License-Identifier: Apache-2.0
// From a C++ callable to the calling convention: signatures, argument conversion and their error
// texts.
#pragma once

#include <cxxabi.h>
#include <tvm/ffi/any.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

template <typename T>
class Expected;

namespace detail {

template <typename T>
struct ExpectedValue {
  static constexpr bool kIsExpected = false;
};
template <typename T>
struct ExpectedValue<Expected<T>> {
  static constexpr bool kIsExpected = true;
  using Type = T;
};

/// The texts of a signature, out of those of its types. One function for all signatures: what each
/// has of its own is a table.
using TypeText = std::string (*)();

TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline std::string SignatureText(const TypeText* params,
                                                                     size_t num_params,
                                                                     TypeText result) {
  std::string text = "(";
  for (size_t i = 0; i < num_params; ++i) {
    // std::to_string would have libraries export a table of digits.
    char number[24];
    std::snprintf(number, sizeof(number), "%zu: ", i);
    text.append(i == 0 ? "" : ", ").append(number).append(params[i]());
  }
  return text.append(") -> ").append(result());
}

TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline std::string SignatureSchema(const TypeText* params,
                                                                       size_t num_params,
                                                                       TypeText result) {
  std::string text = "{\"type\":\"ffi.Function\",\"named_args\":{\"return\":[";
  text.append(result()).append("],\"params\":[");
  for (size_t i = 0; i < num_params; ++i) text.append(i == 0 ? "" : ",").append(params[i]());
  return text.append("]}}");
}

/// Parameter and return types of a signature, and its texts.
template <typename R, typename... Args>
struct SignatureInfo {
  using RetType = R;
  using ArgType = std::tuple<Args...>;
  static constexpr size_t num_args = sizeof...(Args);

  /// `(0: int, 1: str) -> float`
  static std::string Sig() {
    static constexpr TypeText kParams[] = {Type2Str<RemoveCVRef<Args>>::v..., nullptr};
    return SignatureText(kParams, num_args, Type2Str<RemoveCVRef<R>>::v);
  }
  static std::string TypeSchema() {
    static constexpr TypeText kParams[] = {detail::TypeSchema<RemoveCVRef<Args>>::v..., nullptr};
    return SignatureSchema(kParams, num_args, detail::TypeSchema<RemoveCVRef<R>>::v);
  }
};

template <typename F, typename = void>
struct FunctionInfo {};
template <typename R, typename... Args>
struct FunctionInfo<R(Args...), void> : SignatureInfo<R, Args...> {};
template <typename R, typename... Args>
struct FunctionInfo<R(Args...) noexcept, void> : SignatureInfo<R, Args...> {};
template <typename R, typename... Args>
struct FunctionInfo<R (*)(Args...), void> : SignatureInfo<R, Args...> {};
template <typename R, typename... Args>
struct FunctionInfo<R (*)(Args...) noexcept, void> : SignatureInfo<R, Args...> {};
template <typename Class, typename R, typename... Args>
struct FunctionInfo<R (Class::*)(Args...), void> : SignatureInfo<R, Args...> {};
template <typename Class, typename R, typename... Args>
struct FunctionInfo<R (Class::*)(Args...) const, void> : SignatureInfo<R, Args...> {};
template <typename Class, typename R, typename... Args>
struct FunctionInfo<R (Class::*)(Args...) noexcept, void> : SignatureInfo<R, Args...> {};
template <typename Class, typename R, typename... Args>
struct FunctionInfo<R (Class::*)(Args...) const noexcept, void> : SignatureInfo<R, Args...> {};
/// Lambdas and other function objects with one call operator.
template <typename F>
struct FunctionInfo<F, std::void_t<decltype(&F::operator())>>
    : FunctionInfo<decltype(&F::operator())> {};
template <typename F>
struct FunctionInfo<F&, void> : FunctionInfo<F> {};
template <typename F>
struct FunctionInfo<const F, std::enable_if_t<std::is_class_v<F> || std::is_pointer_v<F>>>
    : FunctionInfo<F> {};

/// The name and signature of a call, for error texts. opt_name may be null.
struct CalledAs {
  const char* opt_name;
  std::string (*signature)();

  std::string Text() const {
    return std::string(opt_name == nullptr ? "" : opt_name) + signature();
  }
};

[[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline void ThrowArgumentMismatch(
    const CalledAs& site, size_t index, std::string expected, std::string actual) {
  TVM_FFI_THROW(TypeError) << "Mismatched type on argument #" << index << " when calling: `"
                           << site.Text() << "`. Expected `" << expected << "` but got `" << actual
                           << "`";
  TVM_FFI_UNREACHABLE();
}

[[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline void ThrowCountMismatch(
    const CalledAs& site, size_t expected, int32_t actual) {
  TVM_FFI_THROW(TypeError) << "Mismatched number of arguments when calling: `" << site.Text()
                           << "`. Expected " << expected << " but got " << actual << " arguments";
  TVM_FFI_UNREACHABLE();
}

/// Argument number index as the type that parameter type Param is made from.
template <typename Param>
TVM_FFI_INLINE RemoveCVRef<Param> ConvertArgument(const CalledAs& site, size_t index,
                                                  const TVMFFIAny* source) {
  using T = RemoveCVRef<Param>;
  static_assert(TypeTraits<T>::convert_enabled,
                "a parameter: TVM FFI passes no values of this type, see T above; take TensorView, "
                "Tensor, int64_t, double, bool, String, Array, Map, Optional or Function");
  if constexpr (!TypeTraits<T>::convert_enabled) {
    TVM_FFI_UNREACHABLE();  // the assertion is the only error
  } else if constexpr (std::is_same_v<T, AnyView>) {
    return AnyView::CopyFromTVMFFIAny(*source);
  } else if constexpr (std::is_same_v<T, Any>) {
    return Any(AnyView::CopyFromTVMFFIAny(*source));
  } else {
    std::optional<T> value = TypeTraits<T>::TryCastFromAnyView(source);
    if (TVM_FFI_PREDICT_FALSE(!value.has_value())) {
      ThrowArgumentMismatch(site, index, TypeTraits<T>::TypeStr(),
                            TypeTraits<T>::GetMismatchTypeInfo(source));
    }
    return *std::move(value);
  }
}

/// Constructed with braces, so that arguments are converted from left to right.
struct OrderedCall {
  template <typename F, typename... Values>
  TVM_FFI_INLINE OrderedCall(F& callable, TVMFFIAny* result, Values&&... values) {
    using R = decltype(callable(std::forward<Values>(values)...));
    if constexpr (std::is_void_v<R>) {
      callable(std::forward<Values>(values)...);
    } else if constexpr (ExpectedValue<RemoveCVRef<R>>::kIsExpected) {
      WriteExpected(callable(std::forward<Values>(values)...), result);
    } else {
      Write(callable(std::forward<Values>(values)...), result);
    }
  }

 private:
  template <typename T>
  static TVM_FFI_INLINE void WriteExpected(T&& expected, TVMFFIAny* result) {
    if constexpr (std::is_void_v<typename ExpectedValue<RemoveCVRef<T>>::Type>) {
      expected.value();
    } else {
      Write(std::forward<T>(expected).value(), result);
    }
  }
  template <typename T>
  static TVM_FFI_INLINE void Write(T&& value, TVMFFIAny* result) {
    static_assert(TypeTraitsNoCR<T>::convert_enabled,
                  "a result: TVM FFI passes no values of this type, see T above");
    // *result holds no object on entry: nothing to release.
    if constexpr (TypeTraitsNoCR<T>::convert_enabled) {
      TypeTraitsNoCR<T>::MoveToAny(std::forward<T>(value), result);
    }
  }
};

template <typename Info, typename F, size_t... Is>
TVM_FFI_INLINE void UnpackCall(std::index_sequence<Is...>, const char* opt_name, F& callable,
                               const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  const CalledAs site{opt_name, Info::Sig};
  if (TVM_FFI_PREDICT_FALSE(num_args != static_cast<int32_t>(sizeof...(Is)))) {
    ThrowCountMismatch(site, sizeof...(Is), num_args);
  }
  OrderedCall{
      callable, result,
      ConvertArgument<std::tuple_element_t<Is, typename Info::ArgType>>(site, Is, args + Is)...};
}

/// Calls callable with arguments of the calling convention. \throws Error(TypeError) on a mismatch
template <typename F>
TVM_FFI_INLINE void CallTyped(const char* opt_name, F& callable, const TVMFFIAny* args,
                              int32_t num_args, TVMFFIAny* result) {
  using Info = FunctionInfo<std::remove_reference_t<F>>;
  UnpackCall<Info>(std::make_index_sequence<Info::num_args>(), opt_name, callable, args, num_args,
                   result);
}

template <typename T, typename = void>
struct HasStorage : std::false_type {};
template <typename T>
struct HasStorage<T, std::void_t<decltype(TypeTraits<T>::ToStorage(std::declval<T>()))>>
    : std::true_type {};

/// An argument as something that a view can borrow from: standard containers are converted, the
/// rest is passed on.
template <typename T>
TVM_FFI_INLINE decltype(auto) AsArgument(T&& value) {
  if constexpr (HasStorage<RemoveCVRef<T>>::value) {
    return TypeTraits<RemoveCVRef<T>>::ToStorage(std::forward<T>(value));
  } else {
    return std::forward<T>(value);
  }
}

/// Turns the exception being handled into the thread's error, for the return code -1.
TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline int RaiseCurrentException() {
  try {
    throw;
  } catch (const Error& error) {
    SetSafeCallRaised(error);
  } catch (const std::bad_alloc& error) {
    SetSafeCallRaised(Error("MemoryError", error.what(), ""));
  } catch (const std::exception& error) {
    SetSafeCallRaised(Error("InternalError", error.what(), ""));
#ifdef __GLIBCXX__
  } catch (const abi::__forced_unwind&) {
    throw;  // the thread is being cancelled
#endif
  } catch (...) {
    SetSafeCallRaised(Error("InternalError", "an exception that is no std::exception", ""));
  }
  return -1;
}

}  // namespace detail

/// Around the body of a function of the calling convention: no exception leaves it.
#define TVM_FFI_SAFE_CALL_BEGIN() \
  try {                           \
  (void)0

#define TVM_FFI_SAFE_CALL_END()                         \
  return 0;                                             \
  }                                                     \
  catch (...) {                                         \
    return ::tvm::ffi::detail::RaiseCurrentException(); \
  }

/// Around code in which an exception can only be printed, at exit or in a static initialiser: it
/// ends the process.
#define TVM_FFI_LOG_EXCEPTION_CALL_BEGIN() \
  try {                                    \
  (void)0

#define TVM_FFI_LOG_EXCEPTION_CALL_END(name)                                                \
  }                                                                                         \
  catch (const std::exception& tvm_ffi_error_) {                                            \
    std::fprintf(stderr, "Exception caught during " #name ": %s\n", tvm_ffi_error_.what()); \
    std::exit(-1);                                                                          \
  }

}  // namespace graphffi_v1
}  // namespace tvm::ffi

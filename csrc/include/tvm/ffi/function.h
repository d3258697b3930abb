// SPDX-License-Identifier: Apache-2.0
// Function: anything that can be called through the ABI; TypedFunction; and the macro that exports
// kernels.
#pragma once

#include <tvm/ffi/function_detail.h>
#include <tvm/ffi/optional.h>

#include <functional>
#include <limits>  // not used here, but sources written for TVM FFI count on it
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The object behind Function.
class FunctionObj : public Object, public TVMFFIFunctionCell {
 public:
  static constexpr int32_t _type_index = kTVMFFIFunction;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIFunction, FunctionObj, Object);
  static constexpr bool _type_final = true;

  /// \throws what the callee raised. *result must hold no object.
  TVM_FFI_INLINE void CallPacked(const AnyView* args, int32_t num_args, Any* result) const {
    void* self = detail::ObjectUnsafe::GetHeader(this);
    int rc = this->safe_call(self, reinterpret_cast<const TVMFFIAny*>(args), num_args,
                             reinterpret_cast<TVMFFIAny*>(result));
    if (TVM_FFI_PREDICT_FALSE(rc != 0)) detail::ThrowSafeCallRaised(rc);
  }
};

/// The arguments of a call: borrowed.
class PackedArgs {
 public:
  PackedArgs(const AnyView* data, int32_t size) : data_(data), size_(size) {}
  int size() const { return size_; }
  const AnyView* data() const { return data_; }
  AnyView operator[](int index) const { return data_[index]; }
  PackedArgs Slice(int begin, int end = -1) const {
    return PackedArgs(data_ + begin, (end == -1 ? size_ : end) - begin);
  }
  /// Writes the arguments as views into an array that is large enough.
  template <typename... Args>
  TVM_FFI_INLINE static void Fill(AnyView* data, Args&&... args) {
    [[maybe_unused]] size_t i = 0;
    ((data[i++] = AnyView(std::forward<Args>(args))), ...);
  }

 private:
  const AnyView* data_;
  int32_t size_;
};

namespace detail {

/// A function object around a callable; Invoke is `void (F&, const TVMFFIAny*, int32_t,
/// TVMFFIAny*)`.
template <typename F, typename Invoke>
class FunctionObjImpl : public FunctionObj {
 public:
  explicit FunctionObjImpl(F callable, std::string name = {})
      : callable_(std::move(callable)), name_(std::move(name)) {
    this->safe_call = Call;
    this->cpp_call = nullptr;  // exceptions never cross libraries
  }

 private:
  static int Call(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
    TVM_FFI_SAFE_CALL_BEGIN();
    auto* function = static_cast<FunctionObjImpl*>(static_cast<Object*>(self));
    Invoke::Run(function->callable_, function->name_, args, num_args, result);
    TVM_FFI_SAFE_CALL_END();
  }

  F callable_;
  std::string name_;
};

struct InvokeTyped {
  template <typename F>
  static void Run(F& callable, const std::string& name, const TVMFFIAny* args, int32_t num_args,
                  TVMFFIAny* result) {
    CallTyped(name.c_str(), callable, args, num_args, result);
  }
};

struct InvokePacked {
  template <typename F>
  static void Run(F& callable, const std::string&, const TVMFFIAny* args, int32_t num_args,
                  TVMFFIAny* result) {
    auto* views = reinterpret_cast<const AnyView*>(args);
    Any value;
    if constexpr (std::is_invocable_v<F&, PackedArgs, Any*>) {
      callable(PackedArgs(views, num_args), &value);
    } else {
      callable(views, num_args, &value);
    }
    *result = AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value));
  }
};

}  // namespace detail

/// Anything that can be called through the ABI. Null when default constructed.
class Function : public ObjectRef {
 public:
  Function(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  /// From `void(PackedArgs, Any*)` or `void(const AnyView*, int32_t, Any*)`.
  template <typename F,
            typename = std::enable_if_t<std::is_invocable_v<std::decay_t<F>&, PackedArgs, Any*> &&
                                        !std::is_base_of_v<Function, std::decay_t<F>>>>
  explicit Function(F&& callable) : Function(FromPacked(std::forward<F>(callable))) {}

  template <typename F>
  static Function FromPacked(F callable) {
    using Impl = detail::FunctionObjImpl<F, detail::InvokePacked>;
    return Function(make_object<Impl>(std::move(callable)));
  }
  /// From a callable with convertible parameters. name appears in the errors about its arguments.
  template <typename F>
  static Function FromTyped(F callable) {
    return FromTyped(std::move(callable), std::string());
  }
  template <typename F>
  static Function FromTyped(F callable, std::string name) {
    using Impl = detail::FunctionObjImpl<F, detail::InvokeTyped>;
    return Function(make_object<Impl>(std::move(callable), std::move(name)));
  }
  /// From a C callback; deleter(self) runs when the function dies. With neither self nor deleter
  /// the callback gets the function object as its handle.
  static Function FromExternC(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void*)) {
    TVMFFIObjectHandle made = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFIFunctionCreate(self, safe_call, deleter, &made));
    return Function(detail::ObjectUnsafe::ObjectPtrFromOwned<FunctionObj>(made));
  }

  /// The registered function of that name, or nothing.
  static std::optional<Function> GetGlobal(std::string_view name) {
    TVMFFIByteArray key = ToByteArray(name);
    TVMFFIObjectHandle found = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFIFunctionGetGlobal(&key, &found));
    if (found == nullptr) return std::nullopt;
    return Function(detail::ObjectUnsafe::ObjectPtrFromOwned<FunctionObj>(found));
  }
  /// \throws Error(ValueError) if no such function is registered
  static Function GetGlobalRequired(std::string_view name) {
    std::optional<Function> found = GetGlobal(name);
    if (!found.has_value()) TVM_FFI_THROW(ValueError) << "Function " << name << " not found";
    return *std::move(found);
  }
  /// \throws Error(RuntimeError) if the name is taken and override is false
  static void SetGlobal(std::string_view name, Function func, bool override = false) {
    TVMFFIByteArray key = ToByteArray(name);
    TVM_FFI_CHECK_SAFE_CALL(TVMFFIFunctionSetGlobal(
        &key, detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(func), override ? 1 : 0));
  }
  static std::vector<String> ListGlobalNames();
  static void RemoveGlobal(const String& name);

  /// \throws what the callee raised
  template <typename... Args>
  TVM_FFI_INLINE Any operator()(Args&&... args) const {
    return CallViews(detail::AsArgument(std::forward<Args>(args))...);
  }
  void CallPacked(const AnyView* args, int32_t num_args, Any* result) const {
    result->reset();
    NotNull()->CallPacked(args, num_args, result);
  }
  void CallPacked(PackedArgs args, Any* result) const {
    CallPacked(args.data(), args.size(), result);
  }
  template <typename T, typename... Args>
  Expected<T> CallExpected(Args&&... args) const;

  /// Calls a C function of the calling convention.
  template <typename... Args>
  TVM_FFI_INLINE static Any InvokeExternC(void* handle, TVMFFISafeCallType safe_call,
                                          Args&&... args) {
    constexpr size_t kCount = sizeof...(Args);
    AnyView views[kCount == 0 ? 1 : kCount];
    PackedArgs::Fill(views, std::forward<Args>(args)...);
    Any result;
    int rc = safe_call(handle, reinterpret_cast<const TVMFFIAny*>(views),
                       static_cast<int32_t>(kCount), reinterpret_cast<TVMFFIAny*>(&result));
    if (TVM_FFI_PREDICT_FALSE(rc != 0)) detail::ThrowSafeCallRaised(rc);
    return result;
  }

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Function, ObjectRef, FunctionObj);

 private:
  /// args live until the call is over.
  template <typename... Args>
  TVM_FFI_INLINE Any CallViews(Args&&... args) const {
    constexpr size_t kCount = sizeof...(Args);
    AnyView views[kCount == 0 ? 1 : kCount];
    PackedArgs::Fill(views, std::forward<Args>(args)...);
    Any result;
    NotNull()->CallPacked(views, static_cast<int32_t>(kCount), &result);
    return result;
  }
  TVM_FFI_INLINE const FunctionObj* NotNull() const {
    if (TVM_FFI_PREDICT_FALSE(get() == nullptr)) ThrowNull();
    return get();
  }
  [[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE static void ThrowNull() {
    TVM_FFI_THROW(TypeError) << "calling a Function that is null";
    TVM_FFI_UNREACHABLE();
  }
};

template <typename Signature>
class TypedFunction;

/// A Function of a known signature.
template <typename R, typename... Args>
class TypedFunction<R(Args...)> {
 public:
  using Info = detail::SignatureInfo<R, Args...>;

  TypedFunction() = default;
  TypedFunction(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  /// Nothing is checked: a mismatch shows when it is called.
  TypedFunction(Function packed) : packed_(std::move(packed)) {}  // NOLINT(runtime/explicit)
  template <typename F,
            typename = std::enable_if_t<
                std::is_invocable_v<F&, Args...> &&
                (std::is_void_v<R> || std::is_convertible_v<std::invoke_result_t<F&, Args...>, R>)>>
  TypedFunction(F callable) : TypedFunction(std::move(callable), std::string()) {}  // NOLINT
  template <typename F, typename = std::enable_if_t<std::is_invocable_v<F&, Args...>>>
  TypedFunction(F callable, std::string name)
      : packed_(Function::FromTyped(
            [callable = std::move(callable)](Args... args) mutable -> R {
              return static_cast<R>(callable(std::forward<Args>(args)...));
            },
            std::move(name))) {}

  TypedFunction& operator=(Function packed) {
    packed_ = std::move(packed);
    return *this;
  }

  TVM_FFI_INLINE R operator()(Args... args) const {
    if constexpr (std::is_void_v<R>) {
      packed_(std::forward<Args>(args)...);
    } else {
      Any result = packed_(std::forward<Args>(args)...);
      if constexpr (std::is_same_v<R, Any>) {
        return result;
      } else {
        return std::move(result).template cast<R>();
      }
    }
  }
  const Function& packed() const& { return packed_; }
  Function packed() && { return std::move(packed_); }
  operator Function() const { return packed_; }  // NOLINT(runtime/explicit)
  bool operator==(std::nullptr_t) const { return packed_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return packed_ != nullptr; }
  static std::string TypeSchema() { return Info::TypeSchema(); }

 private:
  Function packed_;
};

template <typename Signature>
struct TypeTraits<TypedFunction<Signature>> : TypeTraitsBase {
  using Self = TypedFunction<Signature>;
  static constexpr int32_t field_static_type_index = kTVMFFIFunction;
  static void CopyToAnyView(const Self& value, TVMFFIAny* out) {
    TypeTraits<Function>::CopyToAnyView(value.packed(), out);
  }
  static void MoveToAny(Self value, TVMFFIAny* out) {
    TypeTraits<Function>::MoveToAny(std::move(value).packed(), out);
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return TypeTraits<Function>::CheckAnyStrict(source);
  }
  static Self CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return TypeTraits<Function>::CopyFromAnyViewAfterCheck(source);
  }
  static Self MoveFromAnyAfterCheck(TVMFFIAny* source) {
    return TypeTraits<Function>::MoveFromAnyAfterCheck(source);
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    std::optional<Function> function = TypeTraits<Function>::TryCastFromAnyView(source);
    if (!function.has_value()) return std::nullopt;
    return Self(*std::move(function));
  }
  static std::string TypeStr() { return detail::FunctionInfo<Signature>::Sig(); }
  static std::string TypeSchema() { return detail::FunctionInfo<Signature>::TypeSchema(); }
};

inline std::vector<String> Function::ListGlobalNames() {
  Function names = GetGlobalRequired("ffi.FunctionListGlobalNamesFunctor")().cast<Function>();
  int64_t count = names(-1).cast<int64_t>();
  std::vector<String> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(names(i).cast<String>());
  return result;
}

inline void Function::RemoveGlobal(const String& name) {
  GetGlobalRequired("ffi.FunctionRemoveGlobal")(name);
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

#include <tvm/ffi/expected.h>         // IWYU pragma: export
#include <tvm/ffi/function_export.h>  // IWYU pragma: export

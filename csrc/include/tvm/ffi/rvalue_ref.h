// SPDX-License-Identifier: Apache-2.0
// RValueRef<T>: a parameter that takes the caller's reference over, so that the callee may change a
// unique object.
#pragma once

#include <tvm/ffi/any.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Called as `f(RValueRef(std::move(x)))`: x is null afterwards if the callee took it.
template <typename T, typename = std::enable_if_t<std::is_base_of_v<ObjectRef, T>>>
class RValueRef {
 public:
  explicit RValueRef(T&& value) : value_(std::move(value)) {}
  RValueRef(const RValueRef&) = delete;
  RValueRef& operator=(const RValueRef&) = delete;
  RValueRef(RValueRef&&) = default;
  RValueRef& operator=(RValueRef&&) = default;

  /// Moves the value out.
  T operator*() && { return std::move(value_); }

 private:
  template <typename, typename>
  friend struct TypeTraits;
  mutable T value_;
};

template <typename T>
RValueRef(T&&) -> RValueRef<std::remove_reference_t<T>>;

template <typename T>
struct TypeTraits<RValueRef<T>> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(const RValueRef<T>& value, TVMFFIAny* out) {
    detail::WritePOD(out, kTVMFFIObjectRValueRef, 0);
    out->v_ptr = detail::ObjectUnsafe::SlotOf(value.value_);
  }
  static std::optional<RValueRef<T>> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIObjectRValueRef) {
      auto** slot = static_cast<TVMFFIObject**>(source->v_ptr);
      TVMFFIAny object{};
      detail::WriteObject(&object, *slot);
      if (TypeTraits<T>::CheckAnyStrict(&object)) {
        *slot = nullptr;
        return RValueRef<T>(TypeTraits<T>::MoveFromAnyAfterCheck(&object));
      }
      std::optional<T> converted = TypeTraits<T>::TryCastFromAnyView(&object);
      if (!converted.has_value()) return std::nullopt;
      return RValueRef<T>(*std::move(converted));
    }
    // An ordinary reference is copied: the caller keeps its own.
    std::optional<T> copy = TypeTraits<T>::TryCastFromAnyView(source);
    if (!copy.has_value()) return std::nullopt;
    return RValueRef<T>(*std::move(copy));
  }
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    if (source->type_index != kTVMFFIObjectRValueRef) {
      return TypeTraits<T>::GetMismatchTypeInfo(source);
    }
    TVMFFIAny object{};
    detail::WriteObject(&object, *static_cast<TVMFFIObject**>(source->v_ptr));
    return "RValueRef<" + TypeTraits<T>::GetMismatchTypeInfo(&object) + ">";
  }
  static std::string TypeStr() { return "RValueRef<" + TypeTraits<T>::TypeStr() + ">"; }
  static std::string TypeSchema() { return detail::SchemaOf<T>("ObjectRValueRef"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

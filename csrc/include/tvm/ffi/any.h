// SPDX-License-Identifier: Apache-2.0
// AnyView and Any: one value of any type, borrowed or owned, in the ABI's 16 bytes.
#pragma once

#include <tvm/ffi/string.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

class Any;
class AnyView;

namespace detail {

struct AnyUnsafe;

template <typename T>
inline constexpr bool kIsAny = std::is_same_v<T, Any> || std::is_same_v<T, AnyView>;

template <typename T>
struct HasTraits : std::bool_constant<TypeTraitsNoCR<T>::convert_enabled> {};

/// Types that a value can be as it stands, without conversion.
template <typename T, typename = void>
inline constexpr bool kHasStrictCheck = false;
template <typename T>
inline constexpr bool kHasStrictCheck<
    T, std::void_t<decltype(TypeTraits<T>::CheckAnyStrict(std::declval<const TVMFFIAny*>()))>> =
    true;

/// Types that an Any or AnyView is made from through their traits.
template <typename T>
inline constexpr bool kIsConvertible =
    std::conjunction_v<std::bool_constant<!kIsAny<RemoveCVRef<T>>>, HasTraits<T>>;

[[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline void ThrowCannotConvert(
    const std::string& from, const std::string& to) {
  TVM_FFI_THROW(TypeError) << "Cannot convert from type `" << from << "` to `" << to << "`";
  TVM_FFI_UNREACHABLE();
}

[[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline void ThrowCannotTreat(
    const std::string& actual, const std::string& wanted) {
  TVM_FFI_THROW(TypeError) << "Cannot treat type `" << actual << "` as type `" << wanted << "`";
  TVM_FFI_UNREACHABLE();
}

template <typename T>
T CastAnyView(const TVMFFIAny* source) {
  static_assert(TypeTraits<T>::convert_enabled, "this type has no TypeTraits");
  std::optional<T> result = TypeTraits<T>::TryCastFromAnyView(source);
  if (TVM_FFI_PREDICT_FALSE(!result.has_value())) {
    ThrowCannotConvert(TypeTraits<T>::GetMismatchTypeInfo(source), TypeTraits<T>::TypeStr());
  }
  return *std::move(result);
}

}  // namespace detail

/// A value that somebody else keeps alive. Never a member of what outlives a call.
class AnyView {
 public:
  AnyView() : data_{} {}
  AnyView(const AnyView&) = default;
  AnyView& operator=(const AnyView&) = default;
  AnyView(const Any& other);  // NOLINT(runtime/explicit)
  AnyView& operator=(const Any& other);

  template <typename T, typename = std::enable_if_t<detail::kIsConvertible<T>>>
  AnyView(const T& value) {  // NOLINT(runtime/explicit)
    TypeTraits<T>::CopyToAnyView(value, &data_);
  }
  template <typename T, typename = std::enable_if_t<detail::kIsConvertible<T>>>
  AnyView& operator=(const T& value) {
    TypeTraits<T>::CopyToAnyView(value, &data_);
    return *this;
  }

  static AnyView CopyFromTVMFFIAny(TVMFFIAny data) {
    AnyView view;
    view.data_ = data;
    return view;
  }
  TVMFFIAny CopyToTVMFFIAny() const { return data_; }

  int32_t type_index() const { return data_.type_index; }
  std::string GetTypeKey() const { return TypeIndexToTypeKey(data_.type_index); }
  /// The same value or the same object: identity, not equality of contents (see AnyEqual).
  bool same_as(const AnyView& other) const {
    return data_.type_index == other.data_.type_index &&
           data_.zero_padding == other.data_.zero_padding && data_.v_int64 == other.data_.v_int64;
  }
  void reset() { data_ = TVMFFIAny{}; }
  void swap(AnyView& other) noexcept { std::swap(data_, other.data_); }
  bool operator==(std::nullptr_t) const { return data_.type_index == kTVMFFINone; }
  bool operator!=(std::nullptr_t) const { return data_.type_index != kTVMFFINone; }

  /// The value as a T, converted if need be. \throws Error(TypeError)
  template <typename T>
  T cast() const {
    return detail::CastAnyView<T>(&data_);
  }
  /// The value as a T, converted if need be, or nothing.
  template <typename T>
  std::optional<T> try_cast() const {
    return TypeTraits<T>::TryCastFromAnyView(&data_);
  }
  /// The value if it is a T as it stands: no conversion.
  template <typename T, typename = std::enable_if_t<detail::kHasStrictCheck<T>>>
  std::optional<T> as() const;
  /// The object if it is a T, null otherwise. Borrowed.
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>, typename = void>
  const T* as() const {
    return TypeTraits<const T*>::CheckAnyStrict(&data_)
               ? TypeTraits<const T*>::CopyFromAnyViewAfterCheck(&data_)
               : nullptr;
  }

  /// The value if it is a T as it stands. \throws Error(TypeError) otherwise
  template <typename T>
  T as_or_throw() const {
    std::optional<T> value = as<T>();
    if (TVM_FFI_PREDICT_FALSE(!value.has_value())) {
      detail::ThrowCannotTreat(TypeIndexToTypeKey(data_.type_index), TypeTraits<T>::TypeStr());
    }
    return *std::move(value);
  }

 private:
  friend class Any;
  friend struct detail::AnyUnsafe;
  TVMFFIAny data_;
};

/// An owned value: one strong reference if it is an object.
class Any {
 public:
  Any() : data_{} {}
  Any(const Any& other) : data_(other.data_) {
    if (data_.type_index >= kTVMFFIStaticObjectBegin) detail::IncRef(data_.v_obj);
  }
  Any(Any&& other) noexcept : data_(std::exchange(other.data_, TVMFFIAny{})) {}
  /// Takes a reference; C strings and byte arrays are copied; an rvalue reference is moved out.
  Any(const AnyView& other) { InitFromView(other.data_); }  // NOLINT(runtime/explicit)
  template <typename T, typename = std::enable_if_t<detail::kIsConvertible<T>>>
  Any(T&& value) {  // NOLINT(runtime/explicit)
    TypeTraitsNoCR<T>::MoveToAny(std::forward<T>(value), &data_);
  }
  ~Any() { reset(); }

  Any& operator=(const Any& other) {
    Any(other).swap(*this);
    return *this;
  }
  Any& operator=(Any&& other) noexcept {
    Any(std::move(other)).swap(*this);
    return *this;
  }
  Any& operator=(const AnyView& other) {
    Any(other).swap(*this);
    return *this;
  }
  template <typename T, typename = std::enable_if_t<detail::kIsConvertible<T>>>
  Any& operator=(T&& value) {
    Any(std::forward<T>(value)).swap(*this);
    return *this;
  }

  void reset() {
    if (data_.type_index >= kTVMFFIStaticObjectBegin) detail::DecRef(data_.v_obj);
    data_ = TVMFFIAny{};
  }
  void swap(Any& other) noexcept { std::swap(data_, other.data_); }

  int32_t type_index() const { return data_.type_index; }
  std::string GetTypeKey() const { return TypeIndexToTypeKey(data_.type_index); }
  /// The same value or the same object: identity, not equality of contents (see AnyEqual).
  bool same_as(const Any& other) const { return AnyView(*this).same_as(other); }
  bool operator==(std::nullptr_t) const { return data_.type_index == kTVMFFINone; }
  bool operator!=(std::nullptr_t) const { return data_.type_index != kTVMFFINone; }

  /// The value as a T, converted if need be. \throws Error(TypeError)
  template <typename T>
  T cast() const& {
    if constexpr (TypeTraits<T>::storage_enabled) {
      if (TypeTraits<T>::CheckAnyStrict(&data_)) {
        return TypeTraits<T>::CopyFromAnyViewAfterCheck(&data_);
      }
    }
    return detail::CastAnyView<T>(&data_);
  }
  /// Moves out of this value where no conversion is needed.
  template <typename T>
  T cast() && {
    if constexpr (TypeTraits<T>::storage_enabled && !std::is_pointer_v<T>) {
      if (TypeTraits<T>::CheckAnyStrict(&data_)) {
        return TypeTraits<T>::MoveFromAnyAfterCheck(&data_);
      }
    }
    return detail::CastAnyView<T>(&data_);
  }
  template <typename T>
  std::optional<T> try_cast() const {
    return TypeTraits<T>::TryCastFromAnyView(&data_);
  }
  /// The value if it is a T as it stands: no conversion.
  template <typename T, typename = std::enable_if_t<detail::kHasStrictCheck<T>>>
  std::optional<T> as() const&;
  template <typename T, typename = std::enable_if_t<detail::kHasStrictCheck<T>>>
  std::optional<T> as() &&;
  /// The object if it is a T, null otherwise. Borrowed from this value.
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>, typename = void>
  const T* as() const& {
    return TypeTraits<const T*>::CheckAnyStrict(&data_)
               ? TypeTraits<const T*>::CopyFromAnyViewAfterCheck(&data_)
               : nullptr;
  }

  /// The value if it is a T as it stands. \throws Error(TypeError) otherwise
  template <typename T>
  T as_or_throw() const& {
    return AnyView(*this).as_or_throw<T>();
  }
  template <typename T>
  T as_or_throw() && {
    std::optional<T> value = std::move(*this).template as<T>();
    return value.has_value() ? *std::move(value) : AnyView(*this).as_or_throw<T>();
  }

 private:
  friend class AnyView;
  friend struct detail::AnyUnsafe;

  void InitFromView(const TVMFFIAny& view) {
    data_ = view;
    if (view.type_index >= kTVMFFIStaticObjectBegin) {
      detail::IncRef(view.v_obj);
    } else if (view.type_index == kTVMFFIRawStr) {
      detail::WriteOwnedString(view.v_c_str, &data_);
    } else if (view.type_index == kTVMFFIByteArrayPtr) {
      auto* array = static_cast<const TVMFFIByteArray*>(view.v_ptr);
      detail::WriteOwnedBytes<detail::BytesObj>(array->data, array->size, &data_);
    } else if (view.type_index == kTVMFFIObjectRValueRef) {
      auto** slot = static_cast<TVMFFIObject**>(view.v_ptr);
      detail::WriteObject(&data_, std::exchange(*slot, nullptr));
    }
  }

  TVMFFIAny data_;
};

static_assert(sizeof(AnyView) == sizeof(TVMFFIAny) && sizeof(Any) == sizeof(TVMFFIAny));
static_assert(std::is_trivially_copyable_v<AnyView>);

inline AnyView::AnyView(const Any& other) : data_(other.data_) {}
inline AnyView& AnyView::operator=(const Any& other) {
  data_ = other.data_;
  return *this;
}

template <>
struct TypeTraits<Any> : TypeTraitsBase {
  static void CopyToAnyView(const Any& value, TVMFFIAny* out) {
    *out = AnyView(value).CopyToTVMFFIAny();
  }
  static void MoveToAny(Any value, TVMFFIAny* out);
  static bool CheckAnyStrict(const TVMFFIAny*) { return true; }
  static Any CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return Any(AnyView::CopyFromTVMFFIAny(*source));
  }
  static Any MoveFromAnyAfterCheck(TVMFFIAny* source);
  static std::optional<Any> TryCastFromAnyView(const TVMFFIAny* source) {
    return CopyFromAnyViewAfterCheck(source);
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIAny; }
  static std::string TypeSchema() { return detail::SimpleSchema("Any"); }
};

template <>
struct TypeTraits<AnyView> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(const AnyView& value, TVMFFIAny* out) {
    *out = value.CopyToTVMFFIAny();
  }
  static void MoveToAny(const AnyView& value, TVMFFIAny* out) {
    TypeTraits<Any>::MoveToAny(Any(value), out);
  }
  static std::optional<AnyView> TryCastFromAnyView(const TVMFFIAny* source) {
    return AnyView::CopyFromTVMFFIAny(*source);
  }
  static std::string TypeStr() { return "AnyView"; }
  static std::string TypeSchema() { return detail::SimpleSchema("Any"); }
};

namespace detail {

/// Conversions between Any, AnyView and the C struct that bypass checks and counting.
struct AnyUnsafe {
  /// Takes over what value owned: value is None afterwards.
  static TVMFFIAny MoveAnyToTVMFFIAny(Any&& value) {
    return std::exchange(value.data_, TVMFFIAny{});
  }
  static Any MoveTVMFFIAnyToAny(TVMFFIAny* data) {
    Any value;
    value.data_ = std::exchange(*data, TVMFFIAny{});
    return value;
  }
  static Any MoveTVMFFIAnyToAny(TVMFFIAny&& data) { return MoveTVMFFIAnyToAny(&data); }
  static Any MoveTVMFFIAnyRawToAny(TVMFFIAny data) { return MoveTVMFFIAnyToAny(&data); }
  template <typename T>
  static bool CheckAnyStrict(const Any& value) {
    return TypeTraits<T>::CheckAnyStrict(&value.data_);
  }
  template <typename T>
  static T CopyFromAnyViewAfterCheck(const Any& value) {
    if constexpr (std::is_same_v<T, Any>) {
      return value;
    } else {
      return TypeTraits<T>::CopyFromAnyViewAfterCheck(&value.data_);
    }
  }
  template <typename T>
  static T MoveFromAnyAfterCheck(Any&& value) {
    if constexpr (std::is_same_v<T, Any>) {
      return std::move(value);
    } else {
      return TypeTraits<T>::MoveFromAnyAfterCheck(&value.data_);
    }
  }
  template <typename T = Object>
  static T* RawObjectPtrFromAnyAfterCheck(const Any& value) {
    return ObjectUnsafe::RawObjectPtrFromUnowned<T>(value.data_.v_obj);
  }
  template <typename T = Object>
  static T* RawObjectPtrFromAnyViewAfterCheck(const AnyView& value) {
    return ObjectUnsafe::RawObjectPtrFromUnowned<T>(value.data_.v_obj);
  }
  static Object* ObjectPtrFromAnyAfterCheck(const Any& value) {
    return reinterpret_cast<Object*>(value.data_.v_obj);
  }
  static const TVMFFIAny* TVMFFIAnyPtrFromAny(const Any& value) { return &value.data_; }
  static TVMFFIAny* MutablePtr(Any* value) { return &value->data_; }
  static const TVMFFIAny* TVMFFIAnyPtrFromAnyView(const AnyView& value) { return &value.data_; }
  template <typename T>
  static std::string GetMismatchTypeInfo(const Any& value) {
    return TypeTraits<T>::GetMismatchTypeInfo(&value.data_);
  }
};

/// T's JSON in metadata.
template <typename T>
struct TypeSchemaImpl {
  static std::string v() {
    if constexpr (TypeTraitsNoCR<T>::convert_enabled) return TypeTraitsNoCR<T>::TypeSchema();
    return {};
  }
};
template <>
struct TypeSchemaImpl<void> {
  static std::string v() { return SimpleSchema("None"); }
};
template <typename T>
using TypeSchema = TypeSchemaImpl<T>;
/// That of a type made of T…
template <typename... T>
std::string SchemaOf(const char* type) {
  return SchemaWithArgs(type, {TypeSchemaImpl<T>::v()...});
}

/// Traits of a type that holds its value as an Any, `data_`, and is made of one by `(UnsafeInit,
/// Any)`. The check and the conversions are its own.
template <typename T>
struct AnyHolderTraits : TypeTraitsBase {
  static void CopyToAnyView(const T& value, TVMFFIAny* out) {
    *out = AnyView(value.data_).CopyToTVMFFIAny();
  }
  static void MoveToAny(T value, TVMFFIAny* out) {
    *out = AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value.data_));
  }
  static T CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return T(UnsafeInit{}, Any(AnyView::CopyFromTVMFFIAny(*source)));
  }
  static T MoveFromAnyAfterCheck(TVMFFIAny* source) {
    return T(UnsafeInit{}, AnyUnsafe::MoveTVMFFIAnyToAny(source));
  }
};

}  // namespace detail

template <typename RefType, typename, typename>
std::optional<RefType> ObjectRef::as() const& {
  return AnyView(*this).as<RefType>();
}
template <typename RefType, typename, typename>
std::optional<RefType> ObjectRef::as() && {
  TVMFFIAny view = AnyView(*this).CopyToTVMFFIAny();
  if (!TypeTraits<RefType>::CheckAnyStrict(&view)) return std::nullopt;
  detail::ObjectUnsafe::MoveObjectRefToTVMFFIObjectPtr(std::move(*this));
  return TypeTraits<RefType>::MoveFromAnyAfterCheck(&view);
}
template <typename RefType>
RefType ObjectRef::as_or_throw() const& {
  return AnyView(*this).as_or_throw<RefType>();
}
template <typename RefType>
RefType ObjectRef::as_or_throw() && {
  std::optional<RefType> ref = std::move(*this).template as<RefType>();
  return ref.has_value() ? *std::move(ref) : AnyView(*this).as_or_throw<RefType>();
}

inline void TypeTraits<Any>::MoveToAny(Any value, TVMFFIAny* out) {
  *out = detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value));
}
inline Any TypeTraits<Any>::MoveFromAnyAfterCheck(TVMFFIAny* source) {
  return detail::AnyUnsafe::MoveTVMFFIAnyToAny(source);
}

template <typename T, typename>
std::optional<T> AnyView::as() const {
  if (!TypeTraits<T>::CheckAnyStrict(&data_)) return std::nullopt;
  return TypeTraits<T>::CopyFromAnyViewAfterCheck(&data_);
}
template <typename T, typename>
std::optional<T> Any::as() const& {
  if (!TypeTraits<T>::CheckAnyStrict(&data_)) return std::nullopt;
  return TypeTraits<T>::CopyFromAnyViewAfterCheck(&data_);
}
template <typename T, typename>
std::optional<T> Any::as() && {
  if (!TypeTraits<T>::CheckAnyStrict(&data_)) return std::nullopt;
  if constexpr (std::is_pointer_v<T>) {
    return TypeTraits<T>::CopyFromAnyViewAfterCheck(&data_);
  } else {
    return TypeTraits<T>::MoveFromAnyAfterCheck(&data_);
  }
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// Apache TVM's sources write them without `ffi::`.
namespace tvm {
using ffi::Any;
using ffi::AnyView;
}  // namespace tvm

#include <tvm/ffi/any_hash.h>  // IWYU pragma: export

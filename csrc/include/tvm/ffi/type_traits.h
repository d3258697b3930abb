// SPDX-License-Identifier: Apache-2.0
// TypeTraits<T>: how a C++ type goes into a TVMFFIAny and comes out of it. Specialise it for types
// of your own.
#pragma once

#include <tvm/ffi/error.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

class Any;

/// The conversions of T. A specialisation has
///
/// - convert_enabled, storage_enabled: whether T can be an argument, and whether an Any can hold
/// it;
/// - field_static_type_index: the type index of fields of type T, kTVMFFIAny if it varies;
/// - CopyToAnyView(const T&, TVMFFIAny*): writes a view that borrows from the argument;
/// - MoveToAny(T, TVMFFIAny*): writes an owned value;
/// - CheckAnyStrict(const TVMFFIAny*): whether it is a T as it stands, without conversion;
/// - CopyFromAnyViewAfterCheck(const TVMFFIAny*), MoveFromAnyAfterCheck(TVMFFIAny*): for values
/// that
///   passed that check;
/// - TryCastFromAnyView(const TVMFFIAny*): a std::optional<T>, with conversions;
/// - GetMismatchTypeInfo(const TVMFFIAny*): the type that it has instead, for the error text;
/// - TypeStr(), TypeSchema(): T's name in error texts, and in metadata (JSON).
template <typename T, typename = void>
struct TypeTraits {
  static constexpr bool convert_enabled = false;
  static constexpr bool storage_enabled = false;
};

template <typename T>
using TypeTraitsNoCR = TypeTraits<std::remove_const_t<std::remove_reference_t<T>>>;

namespace detail {

/// The value of type_subsumes_v for the types of these headers.
template <typename Base, typename Derived>
inline constexpr bool type_contains_v =
    std::is_same_v<Base, Any> || std::is_same_v<Base, Derived> ||
    (std::is_base_of_v<ObjectRef, Base> && std::is_base_of_v<Base, Derived>);
template <typename Base, typename Derived>
inline constexpr bool type_contains_v<ObjectPtr<Base>, ObjectPtr<Derived>> =
    std::is_base_of_v<Base, Derived>;
template <typename Base, typename Derived>
inline constexpr bool type_contains_v<Arc<Base>, Arc<Derived>> = std::is_base_of_v<Base, Derived>;
template <typename Base, typename Derived>
inline constexpr bool type_contains_v<ObjectPtr<Base>, Arc<Derived>> =
    std::is_base_of_v<Base, Derived>;

}  // namespace detail

/// Whether every Derived is a Base as it stands, so that a container of one may be used as a
/// container of the other. May be specialised for types of your own.
template <typename Base, typename Derived, typename = void>
inline constexpr bool type_subsumes_v = detail::type_contains_v<Base, Derived>;

/// Whether ObjectRef's own conversion serves a reference type: set to false where a specialisation
/// replaces it.
template <typename T>
inline constexpr bool use_default_type_traits_v = true;

namespace detail {

inline void WritePOD(TVMFFIAny* out, int32_t type_index, int64_t payload) {
  out->type_index = type_index;
  out->zero_padding = 0;
  out->v_int64 = payload;
}

/// Hands the object's reference over to out; null becomes None.
inline void WriteObject(TVMFFIAny* out, TVMFFIObject* opt_object) {
  out->type_index =
      opt_object == nullptr ? static_cast<int32_t>(kTVMFFINone) : opt_object->type_index;
  out->zero_padding = 0;
  out->v_uint64 = 0;
  out->v_obj = opt_object;
}

[[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline void ThrowTooLarge(uint64_t value) {
  TVM_FFI_THROW(OverflowError) << "Integer value " << value << " is too large to fit in int64_t";
  TVM_FFI_UNREACHABLE();
}

inline std::string SimpleSchema(const char* type) {
  return std::string("{\"type\":\"") + type + "\"}";
}
inline std::string SchemaWithArgs(const char* type, std::initializer_list<std::string> args) {
  std::string text = std::string("{\"type\":\"") + type + "\",\"args\":[";
  const char* separator = "";
  for (const std::string& arg : args) {
    text += separator + arg;
    separator = ",";
  }
  return text + "]}";
}

}  // namespace detail

/// Base of most specialisations.
struct TypeTraitsBase {
  static constexpr bool convert_enabled = true;
  static constexpr bool storage_enabled = true;
  static constexpr int32_t field_static_type_index = kTVMFFIAny;
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    return TypeIndexToTypeKey(source->type_index);
  }
};

namespace detail {

/// Traits of a value inside the payload. Derived gives kIndex, kName, Read, Write; conversions are
/// its own.
template <typename T, typename Derived, int32_t kIndex>
struct PODTraits : TypeTraitsBase {
  static constexpr int32_t field_static_type_index = kIndex;
  static void CopyToAnyView(const T& value, TVMFFIAny* out) {
    WritePOD(out, kIndex, 0);
    Derived::Write(value, out);
  }
  static void MoveToAny(T value, TVMFFIAny* out) { CopyToAnyView(value, out); }
  static bool CheckAnyStrict(const TVMFFIAny* source) { return source->type_index == kIndex; }
  static T CopyFromAnyViewAfterCheck(const TVMFFIAny* source) { return Derived::Read(source); }
  static T MoveFromAnyAfterCheck(TVMFFIAny* source) { return Derived::Read(source); }
  static std::optional<T> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kIndex) return Derived::Read(source);
    return std::nullopt;
  }
};

}  // namespace detail

template <>
struct TypeTraits<std::nullptr_t>
    : detail::PODTraits<std::nullptr_t, TypeTraits<std::nullptr_t>, kTVMFFINone> {
  static void Write(std::nullptr_t, TVMFFIAny*) {}
  static std::nullptr_t Read(const TVMFFIAny*) { return nullptr; }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFINone; }
  static std::string TypeSchema() { return detail::SimpleSchema("None"); }
};

template <>
struct TypeTraits<bool> : detail::PODTraits<bool, TypeTraits<bool>, kTVMFFIBool> {
  static void Write(bool value, TVMFFIAny* out) { out->v_int64 = value ? 1 : 0; }
  static bool Read(const TVMFFIAny* source) { return source->v_int64 != 0; }
  static std::optional<bool> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIBool || source->type_index == kTVMFFIInt) return Read(source);
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIBool; }
  static std::string TypeSchema() { return detail::SimpleSchema("bool"); }
};

/// A bool that no int converts to, for overloads and fallbacks.
struct StrictBool {
  StrictBool(bool value) : value_(value) {}  // NOLINT(runtime/explicit)
  operator bool() const { return value_; }   // NOLINT(runtime/explicit)

 private:
  bool value_;
};

template <>
struct TypeTraits<StrictBool> : detail::PODTraits<StrictBool, TypeTraits<StrictBool>, kTVMFFIBool> {
  static void Write(StrictBool value, TVMFFIAny* out) { out->v_int64 = value ? 1 : 0; }
  static StrictBool Read(const TVMFFIAny* source) { return source->v_int64 != 0; }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIBool; }
  static std::string TypeSchema() { return detail::SimpleSchema("bool"); }
};

namespace detail {

/// Traits of integers and enums; a bool converts to either.
template <typename T>
struct IntegralTraits : PODTraits<T, TypeTraits<T>, kTVMFFIInt> {
  static void Write(T value, TVMFFIAny* out) { out->v_int64 = static_cast<int64_t>(value); }
  static T Read(const TVMFFIAny* source) { return static_cast<T>(source->v_int64); }
  /// False for an int that would be cut. One of 64 bits may stand for an unsigned one.
  static bool Fits(const TVMFFIAny* source) {
    return static_cast<int64_t>(Read(source)) == source->v_int64;
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIInt && Fits(source);
  }
  static std::optional<T> TryCastFromAnyView(const TVMFFIAny* source) {
    const bool is_int = source->type_index == kTVMFFIInt || source->type_index == kTVMFFIBool;
    return is_int && Fits(source) ? std::optional<T>(Read(source)) : std::nullopt;
  }
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    if (source->type_index != kTVMFFIInt) return TypeTraitsBase::GetMismatchTypeInfo(source);
    return std::to_string(source->v_int64) + ", which " + std::to_string(8 * sizeof(T)) +
           " bits do not hold";
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIInt; }
  static std::string TypeSchema() { return SimpleSchema("int"); }
};

}  // namespace detail

template <typename Int>
struct TypeTraits<Int, std::enable_if_t<std::is_integral_v<Int>>> : detail::IntegralTraits<Int> {
  static void Write(Int value, TVMFFIAny* out) {
    if constexpr (std::is_unsigned_v<Int> && sizeof(Int) == sizeof(int64_t)) {
      if (TVM_FFI_PREDICT_FALSE(value > static_cast<Int>(INT64_MAX))) detail::ThrowTooLarge(value);
    }
    detail::IntegralTraits<Int>::Write(value, out);
  }
};

template <typename Enum>
struct TypeTraits<Enum, std::enable_if_t<std::is_enum_v<Enum>>> : detail::IntegralTraits<Enum> {};

template <typename Float>
struct TypeTraits<Float, std::enable_if_t<std::is_floating_point_v<Float>>>
    : detail::PODTraits<Float, TypeTraits<Float>, kTVMFFIFloat> {
  static void Write(Float value, TVMFFIAny* out) { out->v_float64 = static_cast<double>(value); }
  static Float Read(const TVMFFIAny* source) { return static_cast<Float>(source->v_float64); }
  static std::optional<Float> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIFloat) return Read(source);
    if (source->type_index == kTVMFFIInt || source->type_index == kTVMFFIBool) {
      return static_cast<Float>(source->v_int64);
    }
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIFloat; }
  static std::string TypeSchema() { return detail::SimpleSchema("float"); }
};

template <>
struct TypeTraits<void*> : detail::PODTraits<void*, TypeTraits<void*>, kTVMFFIOpaquePtr> {
  static void Write(void* value, TVMFFIAny* out) { out->v_ptr = value; }
  static void* Read(const TVMFFIAny* source) { return source->v_ptr; }
  static std::optional<void*> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIOpaquePtr) return Read(source);
    if (source->type_index == kTVMFFINone) return static_cast<void*>(nullptr);
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIOpaquePtr; }
  static std::string TypeSchema() { return detail::SimpleSchema("void*"); }
};

/// A weak tensor. An Any holds it as the pointer that it is: it can dangle.
template <>
struct TypeTraits<DLTensor*>
    : detail::PODTraits<DLTensor*, TypeTraits<DLTensor*>, kTVMFFIDLTensorPtr> {
  static void Write(DLTensor* value, TVMFFIAny* out) {
    if (value == nullptr) TVM_FFI_THROW(TypeError) << "a DLTensor* argument must not be null";
    out->v_ptr = value;
  }
  static DLTensor* Read(const TVMFFIAny* source) { return static_cast<DLTensor*>(source->v_ptr); }
  static std::optional<DLTensor*> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIDLTensorPtr) return Read(source);
    if (source->type_index == kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(source->v_obj);
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIDLTensorPtr; }
  static std::string TypeSchema() { return detail::SimpleSchema("DLTensor*"); }
};

/// Traits of a reference type; a specialisation may derive from it and replace TryCastFromAnyView.
template <typename RefType>
struct ObjectRefTypeTraitsBase : TypeTraitsBase {
  using ContainerType = typename RefType::ContainerType;
  static constexpr int32_t field_static_type_index = kTVMFFIObject;

  static void CopyToAnyView(const RefType& value, TVMFFIAny* out) {
    detail::WriteObject(out, detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(value));
  }
  static void MoveToAny(RefType value, TVMFFIAny* out) {
    detail::WriteObject(out,
                        detail::ObjectUnsafe::MoveObjectRefToTVMFFIObjectPtr(std::move(value)));
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return RefType::_type_is_nullable;
    return source->type_index >= kTVMFFIStaticObjectBegin &&
           detail::IsObjectInstance<ContainerType>(source->type_index);
  }
  static RefType CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    if constexpr (RefType::_type_is_nullable) {
      if (source->type_index == kTVMFFINone) return FromPointer(ObjectPtr<Object>());
    }
    return FromPointer(detail::ObjectUnsafe::ObjectPtrFromUnowned<Object>(source->v_obj));
  }
  static RefType MoveFromAnyAfterCheck(TVMFFIAny* source) {
    if constexpr (RefType::_type_is_nullable) {
      if (source->type_index == kTVMFFINone) return FromPointer(ObjectPtr<Object>());
    }
    TVMFFIObject* object = source->v_obj;
    detail::WritePOD(source, kTVMFFINone, 0);
    return FromPointer(detail::ObjectUnsafe::ObjectPtrFromOwned<Object>(object));
  }
  static std::optional<RefType> TryCastFromAnyView(const TVMFFIAny* source) {
    // Of the specialisation, which may narrow or widen the check.
    if (TypeTraits<RefType>::CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    return std::nullopt;
  }
  static std::string TypeStr() { return ContainerType::_type_key; }
  static std::string TypeSchema() { return detail::SimpleSchema(ContainerType::_type_key); }

 protected:
  static RefType FromPointer(ObjectPtr<Object> pointer) {
    return detail::ObjectUnsafe::ObjectRefFromObjectPtr<RefType>(std::move(pointer));
  }
};

template <typename RefType>
struct TypeTraits<RefType, std::enable_if_t<std::is_base_of_v<ObjectRef, RefType> &&
                                            use_default_type_traits_v<RefType>>>
    : ObjectRefTypeTraitsBase<RefType> {};

/// A borrowed object pointer, as a parameter or as what Any::as gives. Never null as a parameter.
template <typename ObjectType>
struct TypeTraits<ObjectType*, std::enable_if_t<std::is_base_of_v<Object, ObjectType>>>
    : TypeTraitsBase {
  using Pointee = std::remove_const_t<ObjectType>;
  static constexpr int32_t field_static_type_index = kTVMFFIObject;

  static void CopyToAnyView(ObjectType* value, TVMFFIAny* out) {
    detail::WriteObject(out, value == nullptr ? nullptr : detail::ObjectUnsafe::GetHeader(value));
  }
  static void MoveToAny(ObjectType* value, TVMFFIAny* out) {
    CopyToAnyView(value, out);
    if (value != nullptr) detail::IncRef(out->v_obj);
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index >= kTVMFFIStaticObjectBegin &&
           detail::IsObjectInstance<Pointee>(source->type_index);
  }
  static ObjectType* CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return detail::ObjectUnsafe::RawObjectPtrFromUnowned<Pointee>(source->v_obj);
  }
  static std::optional<ObjectType*> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    return std::nullopt;
  }
  static std::string TypeStr() { return Pointee::_type_key; }
  static std::string TypeSchema() { return detail::SimpleSchema(Pointee::_type_key); }
};

/// A counted pointer that may be null.
template <typename ObjectType>
struct TypeTraits<ObjectPtr<ObjectType>,
                  std::enable_if_t<is_object_subclass_v<ObjectType> &&
                                   !std::is_const_v<ObjectType> && !std::is_volatile_v<ObjectType>>>
    : TypeTraitsBase {
  using Self = ObjectPtr<ObjectType>;
  static constexpr int32_t field_static_type_index = kTVMFFIObject;

  static void CopyToAnyView(const Self& value, TVMFFIAny* out) {
    detail::WriteObject(out, detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectPtr(value));
  }
  static void MoveToAny(Self value, TVMFFIAny* out) {
    detail::WriteObject(out,
                        detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(value)));
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFINone ||
           (source->type_index >= kTVMFFIStaticObjectBegin &&
            detail::IsObjectInstance<ObjectType>(source->type_index));
  }
  static Self CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return nullptr;
    return detail::ObjectUnsafe::ObjectPtrFromUnowned<ObjectType>(source->v_obj);
  }
  static Self MoveFromAnyAfterCheck(TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return nullptr;
    TVMFFIObject* object = source->v_obj;
    detail::WritePOD(source, kTVMFFINone, 0);
    return detail::ObjectUnsafe::ObjectPtrFromOwned<ObjectType>(object);
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    return std::nullopt;
  }
  static std::string TypeStr() { return std::string("Optional<") + ObjectType::_type_key + ">"; }
  static std::string TypeSchema() {
    return detail::SchemaWithArgs("Optional", {detail::SimpleSchema(ObjectType::_type_key)});
  }
};

/// A counted pointer that is never null.
template <typename ObjectType>
struct TypeTraits<Arc<ObjectType>,
                  std::enable_if_t<is_object_subclass_v<ObjectType> &&
                                   !std::is_const_v<ObjectType> && !std::is_volatile_v<ObjectType>>>
    : TypeTraits<ObjectPtr<ObjectType>> {
  using Self = Arc<ObjectType>;
  using Nullable = TypeTraits<ObjectPtr<ObjectType>>;

  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index != kTVMFFINone && Nullable::CheckAnyStrict(source);
  }
  static Self CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return detail::ObjectUnsafe::ArcFromObjectPtr(Nullable::CopyFromAnyViewAfterCheck(source));
  }
  static Self MoveFromAnyAfterCheck(TVMFFIAny* source) {
    return detail::ObjectUnsafe::ArcFromObjectPtr(Nullable::MoveFromAnyAfterCheck(source));
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    return std::nullopt;
  }
  static std::string TypeStr() { return ObjectType::_type_key; }
  static std::string TypeSchema() { return detail::SimpleSchema(ObjectType::_type_key); }
};

/// The type index of fields of type T, kTVMFFIAny if it varies.
template <typename T, typename = void>
struct TypeToFieldStaticTypeIndex : std::integral_constant<int32_t, kTVMFFIAny> {};
template <typename T>
struct TypeToFieldStaticTypeIndex<T, std::enable_if_t<TypeTraits<T>::convert_enabled>>
    : std::integral_constant<int32_t, TypeTraits<T>::field_static_type_index> {};

/// The type index of the object that a reference or pointer type is about.
template <typename T, typename = void>
struct TypeToRuntimeTypeIndex {
  static int32_t v() { return TypeToFieldStaticTypeIndex<T>::value; }
};
template <typename T>
struct TypeToRuntimeTypeIndex<T, std::enable_if_t<std::is_base_of_v<ObjectRef, T>>> {
  static int32_t v() { return T::ContainerType::RuntimeTypeIndex(); }
};

template <typename T>
struct TypeToRuntimeTypeIndex<ObjectPtr<T>, void> {
  static int32_t v() { return T::RuntimeTypeIndex(); }
};
template <typename T>
struct TypeToRuntimeTypeIndex<Arc<T>, void> {
  static int32_t v() { return T::RuntimeTypeIndex(); }
};

namespace detail {

/// T's name in error texts; that of a type which can't be passed is asked for only where an
/// assertion fails.
template <typename T>
struct Type2Str {
  static std::string v() {
    if constexpr (TypeTraitsNoCR<T>::convert_enabled) return TypeTraitsNoCR<T>::TypeStr();
    return {};
  }
};
template <>
struct Type2Str<void> {
  static std::string v() { return "void"; }
};

/// `name<A, B>`
template <typename... T>
std::string TypeList(const char* name) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + Type2Str<T>::v()), ...);
  return std::string(name) + "<" + text + ">";
}

/// A T from the first of Fallbacks that the value converts to, by
/// `TypeTraits<T>::ConvertFallbackValue(Fallback)`.
template <typename T, typename... Fallbacks>
std::optional<T> TryFallbacks(const TVMFFIAny* source) {
  std::optional<T> result;
  [[maybe_unused]] auto convert = [&result](auto fallback) {
    if (!fallback.has_value()) return false;
    result.emplace(TypeTraits<T>::ConvertFallbackValue(*std::move(fallback)));
    return true;
  };
  (convert(TypeTraits<Fallbacks>::TryCastFromAnyView(source)) || ...);
  return result;
}

}  // namespace detail

/// Base of traits of a type that is converted from Fallbacks, one after the other, when it is not
/// there itself. Derived has `static T ConvertFallbackValue(Fallback)` for each.
template <typename T, typename... Fallbacks>
struct FallbackOnlyTraitsBase : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static std::optional<T> TryCastFromAnyView(const TVMFFIAny* source) {
    return detail::TryFallbacks<T, Fallbacks...>(source);
  }
  /// The types that it is made from.
  static std::string TypeStr() { return detail::TypeList<Fallbacks...>("Variant"); }
};

/// Base of traits of a reference type that is also made from Fallbacks, e.g. an expression from an
/// int.
template <typename RefType, typename... Fallbacks>
struct ObjectRefWithFallbackTraitsBase : ObjectRefTypeTraitsBase<RefType> {
  static std::optional<RefType> TryCastFromAnyView(const TVMFFIAny* source) {
    auto direct = ObjectRefTypeTraitsBase<RefType>::TryCastFromAnyView(source);
    return direct ? direct : detail::TryFallbacks<RefType, Fallbacks...>(source);
  }
};

/// The index of a registered type. \throws Error if the key is unknown
inline int32_t TypeKeyToIndex(std::string_view type_key) {
  TVMFFIByteArray key = {type_key.data(), type_key.size()};
  int32_t index;
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeKeyToIndex(&key, &index));
  return index;
}

/// Declares an object type that another library registers: its index is looked up on first use, and
/// nothing is registered. \throws Error if nobody registered the key
#define TVM_FFI_DECLARE_OBJECT_INFO_LOOKUP(TypeKey, TypeDepth)        \
  static constexpr const char* _type_key = TypeKey;                   \
  static constexpr int32_t _type_depth = TypeDepth;                   \
  static constexpr bool _type_mutable = true;                         \
  static constexpr bool _type_final = false;                          \
  static constexpr int32_t _type_child_slots = 0;                     \
  static constexpr bool _type_child_slots_can_overflow = true;        \
  static int32_t RuntimeTypeIndex() {                                 \
    static const int32_t index = ::tvm::ffi::TypeKeyToIndex(TypeKey); \
    return index;                                                     \
  }

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// String and Bytes: up to 7 bytes live inside the value, longer ones in a counted, immutable
// object.
#pragma once

#include <tvm/ffi/type_traits.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// The body that String and Bytes objects share: a NUL-terminated array right behind the object.
class BytesObjBase : public Object, public TVMFFIByteArray {};

class StringObj : public BytesObjBase {
 public:
  static constexpr int32_t _type_index = kTVMFFIStr;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIStr, StringObj, Object);
};

class BytesObj : public BytesObjBase {
 public:
  static constexpr int32_t _type_index = kTVMFFIBytes;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIBytes, BytesObj, Object);
};

inline constexpr size_t kMaxSmallSize = 7;

/// Writes owned bytes of the given size, of which data are the first (a null data: zeros), and
/// gives their address.
template <typename ObjectType>
char* WriteOwnedBytes(const char* data, size_t size, TVMFFIAny* out) {
  constexpr bool kIsString = std::is_same_v<ObjectType, StringObj>;
  char* target;
  if (size <= kMaxSmallSize) {
    out->type_index = kIsString ? kTVMFFISmallStr : kTVMFFISmallBytes;
    out->small_str_len = static_cast<uint32_t>(size);
    out->v_uint64 = 0;  // the unused bytes are part of hash and comparison
    target = out->v_bytes;
  } else {
    auto object = make_inplace_array_object<ObjectType, char>(size + 1);
    target = reinterpret_cast<char*>(object.get()) + sizeof(ObjectType);
    target[size] = '\0';
    object->data = target;
    object->size = size;
    WriteObject(out, ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(object)));
  }
  if (data != nullptr) {
    std::memcpy(target, data, size);
  } else {
    std::memset(target, 0, size);
  }
  return target;
}

/// A String or Bytes object around a std::string.
template <typename ObjectType>
class FromStdString : public ObjectType {
 public:
  explicit FromStdString(std::string text) : text_(std::move(text)) {
    this->data = text_.data();
    this->size = text_.size();
  }

 private:
  std::string text_;
};

/// Takes the text over without a copy: an object, however short the text is.
template <typename ObjectType>
void WriteMovedString(std::string&& text, TVMFFIAny* out) {
  auto object = make_object<FromStdString<ObjectType>>(std::move(text));
  WriteObject(out, ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(object)));
}

inline void WriteOwnedString(std::string_view text, TVMFFIAny* out) {
  WriteOwnedBytes<StringObj>(text.data() == nullptr ? "" : text.data(), text.size(), out);
}

/// The content of a value of kind small or object string or bytes.
inline std::string_view BytesContent(const TVMFFIAny* value) {
  if (value->type_index < kTVMFFIStaticObjectBegin) {
    return std::string_view(value->v_bytes, value->small_str_len);
  }
  const TVMFFIByteArray* array = TVMFFIBytesGetByteArrayPtr(value->v_obj);
  return std::string_view(array->data, array->size);
}

/// Storage and comparison of String and Bytes.
template <typename Derived, typename ObjectType, int32_t kSmallIndex>
class BytesBase {
 public:
  using ContainerType = ObjectType;

  BytesBase(const BytesBase& other) : value_(other.value_) {
    if (value_.type_index >= kTVMFFIStaticObjectBegin) IncRef(value_.v_obj);
  }
  BytesBase(BytesBase&& other) noexcept : value_(std::exchange(other.value_, Empty())) {}
  BytesBase& operator=(const BytesBase& other) {
    BytesBase copy(other);
    std::swap(value_, copy.value_);
    return *this;
  }
  BytesBase& operator=(BytesBase&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~BytesBase() {
    if (value_.type_index >= kTVMFFIStaticObjectBegin) DecRef(value_.v_obj);
  }

  /// NUL-terminated; borrowed from this value.
  const char* data() const { return View().data(); }
  size_t size() const { return View().size(); }
  size_t length() const { return size(); }
  bool empty() const { return size() == 0; }
  /// -1, 0 or 1: bytes compared as unsigned, then the length.
  int compare(std::string_view other) const {
    int order = View().compare(other);
    return (order > 0) - (order < 0);
  }
  operator std::string() const { return std::string(View()); }  // NOLINT(runtime/explicit)
  operator std::string_view() const { return View(); }          // NOLINT(runtime/explicit)
  void swap(BytesBase& other) noexcept { std::swap(value_, other.value_); }

  friend bool operator==(const Derived& a, const Derived& b) { return a.View() == b.View(); }
  friend bool operator!=(const Derived& a, const Derived& b) { return a.View() != b.View(); }
  friend bool operator<(const Derived& a, const Derived& b) { return a.View() < b.View(); }
  friend bool operator>(const Derived& a, const Derived& b) { return a.View() > b.View(); }
  friend bool operator<=(const Derived& a, const Derived& b) { return a.View() <= b.View(); }
  friend bool operator>=(const Derived& a, const Derived& b) { return a.View() >= b.View(); }

 protected:
  BytesBase() : value_(Empty()) {}
  explicit BytesBase(std::string_view text) {
    WriteOwnedBytes<ObjectType>(text.data() == nullptr ? "" : text.data(), text.size(), &value_);
  }
  explicit BytesBase(std::string&& text) { WriteMovedString<ObjectType>(std::move(text), &value_); }

  std::string_view View() const { return BytesContent(&value_); }
  static TVMFFIAny Empty() {
    TVMFFIAny value{};
    value.type_index = kSmallIndex;
    return value;
  }

  template <typename, int32_t, int32_t, int32_t>
  friend struct BytesTraits;
  TVMFFIAny value_;
};

}  // namespace detail

/// Immutable bytes.
class Bytes : public detail::BytesBase<Bytes, detail::BytesObj, kTVMFFISmallBytes> {
 public:
  Bytes() = default;
  Bytes(const char* text) : BytesBase(std::string_view(text)) {}  // NOLINT(runtime/explicit)
  Bytes(const char* data, size_t size) : BytesBase(std::string_view(data, size)) {}
  Bytes(TVMFFIByteArray array) : Bytes(array.data, array.size) {}  // NOLINT(runtime/explicit)
  Bytes(const std::string& other) : BytesBase(std::string_view(other)) {}  // NOLINT
  Bytes(std::string&& other) : BytesBase(std::move(other)) {}  // NOLINT(runtime/explicit)
  Bytes(std::string_view other) : BytesBase(other) {}          // NOLINT(runtime/explicit)

  /// Compares bytes, as memcmp does.
  static int memncmp(const char* a, const char* b, size_t a_size, size_t b_size) {
    return std::string_view(a, a_size).compare(std::string_view(b, b_size));
  }
  static bool memequal(const void* a, const void* b, size_t a_size, size_t b_size) {
    return a_size == b_size && std::memcmp(a, b, a_size) == 0;
  }
};

/// Immutable text.
class String : public detail::BytesBase<String, detail::StringObj, kTVMFFISmallStr> {
 public:
  static constexpr size_t npos = std::string_view::npos;

  String() = default;
  String(std::nullptr_t) = delete;
  String(const char* text) : BytesBase(std::string_view(text)) {}  // NOLINT
  String(const char* data, size_t size) : BytesBase(std::string_view(data, size)) {}
  String(const std::string& other) : BytesBase(std::string_view(other)) {}  // NOLINT
  String(std::string&& other) : BytesBase(std::move(other)) {}  // NOLINT(runtime/explicit)
  String(std::string_view other) : BytesBase(other) {}          // NOLINT
  explicit String(TVMFFIByteArray array) : String(array.data, array.size) {}
  String& operator=(const std::string& other) { return *this = String(other); }
  String& operator=(const char* other) { return *this = String(other); }

  const char* c_str() const { return data(); }
  const char* begin() const { return data(); }
  const char* end() const { return data() + size(); }
  char operator[](size_t index) const { return View()[index]; }
  /// \throws std::out_of_range
  char at(size_t index) const {
    if (index >= size()) throw std::out_of_range("tvm::ffi::String index out of bounds");
    return View()[index];
  }
  size_t find(std::string_view text, size_t from = 0) const { return View().find(text, from); }
  String substr(size_t from = 0, size_t count = npos) const {
    if (from > size()) throw std::out_of_range("tvm::ffi::String substr out of bounds");
    return String(View().substr(from, count));
  }
  /// The pieces between the delimiters: always one more than there are of those.
  std::vector<String> Split(char delimiter) const {
    std::vector<String> pieces;
    std::string_view rest = View();
    for (size_t end; (end = rest.find(delimiter)) != npos; rest = rest.substr(end + 1)) {
      pieces.emplace_back(rest.substr(0, end));
    }
    pieces.emplace_back(rest);
    return pieces;
  }
  bool starts_with(std::string_view prefix) const {
    return View().substr(0, prefix.size()) == prefix;
  }
  bool ends_with(std::string_view suffix) const {
    return size() >= suffix.size() && View().substr(size() - suffix.size()) == suffix;
  }
};

namespace detail {

template <typename T>
inline constexpr bool kIsText = std::is_same_v<T, String> || std::is_same_v<T, Bytes>;
/// Types that a String compares with and that are no String: const char*, std::string,
/// std::string_view.
template <typename T>
inline constexpr bool kIsOtherText =
    std::is_convertible_v<const T&, std::string_view> && !kIsText<T>;

inline String Concat(std::string_view a, std::string_view b) {
  std::string text;
  text.reserve(a.size() + b.size());
  return String(text.append(a).append(b));
}
}  // namespace detail

inline String operator+(const String& a, const String& b) { return detail::Concat(a, b); }
template <typename T, typename = std::enable_if_t<detail::kIsOtherText<T>>>
String operator+(const String& a, const T& b) {
  return detail::Concat(a, std::string_view(b));
}
template <typename T, typename = std::enable_if_t<detail::kIsOtherText<T>>>
String operator+(const T& a, const String& b) {
  return detail::Concat(std::string_view(a), b);
}

#define TVM_FFI_DEFINE_TEXT_COMPARISON_(op)                                                      \
  template <typename S, typename T,                                                              \
            typename = std::enable_if_t<detail::kIsText<S> && detail::kIsOtherText<T>>>          \
  bool operator op(const S& a, const T& b) {                                                     \
    return std::string_view(a) op std::string_view(b);                                           \
  }                                                                                              \
  template <typename S, typename T,                                                              \
            typename = std::enable_if_t<detail::kIsText<S> && detail::kIsOtherText<T>>, int = 0> \
  bool operator op(const T& a, const S& b) {                                                     \
    return std::string_view(a) op std::string_view(b);                                           \
  }
TVM_FFI_DEFINE_TEXT_COMPARISON_(==)
TVM_FFI_DEFINE_TEXT_COMPARISON_(!=)
TVM_FFI_DEFINE_TEXT_COMPARISON_(<)
TVM_FFI_DEFINE_TEXT_COMPARISON_(<=)
TVM_FFI_DEFINE_TEXT_COMPARISON_(>)
TVM_FFI_DEFINE_TEXT_COMPARISON_(>=)
#undef TVM_FFI_DEFINE_TEXT_COMPARISON_

inline std::ostream& operator<<(std::ostream& os, const String& text) {
  return os << std::string_view(text);
}

/// The text as a JSON string, in quotes.
inline String EscapeStringJSON(const String& text) {
  std::string json = "\"";
  for (char c : text) {
    constexpr std::string_view kSpecial = "\"\\/\b\f\n\r\t";
    constexpr std::string_view kLetter = "\"\\/bfnrt";
    size_t special = kSpecial.find(c);
    if (special != std::string_view::npos) {
      json += '\\';
      json += kLetter[special];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[7];
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      json += code;
    } else {
      json += c;
    }
  }
  return json + "\"";
}

[[deprecated("use EscapeStringJSON")]] inline String EscapeString(const String& text) {
  return EscapeStringJSON(text);
}

/// The address and size of a string's bytes; borrowed.
inline TVMFFIByteArray ToByteArray(std::string_view text) { return {text.data(), text.size()}; }

template <>
inline constexpr bool use_default_type_traits_v<String> = false;
template <>
inline constexpr bool use_default_type_traits_v<Bytes> = false;

namespace detail {

/// Traits of String and Bytes. Those also take kViewIndex, as Derived's FromView reads it.
template <typename T, int32_t kSmallIndex, int32_t kObjectIndex, int32_t kViewIndex>
struct BytesTraits : TypeTraitsBase {
  static constexpr int32_t field_static_type_index = kObjectIndex;
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kSmallIndex || source->type_index == kObjectIndex;
  }
  static void CopyToAnyView(const T& value, TVMFFIAny* out) { *out = value.value_; }
  static void MoveToAny(T value, TVMFFIAny* out) { *out = std::exchange(value.value_, T::Empty()); }
  static T CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    if (source->type_index >= kTVMFFIStaticObjectBegin) IncRef(source->v_obj);
    return FromOwned(*source);
  }
  static T MoveFromAnyAfterCheck(TVMFFIAny* source) {
    return FromOwned(std::exchange(*source, TVMFFIAny{}));
  }
  static std::optional<T> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    if (source->type_index == kViewIndex) return TypeTraits<T>::FromView(source);
    return std::nullopt;
  }

 private:
  static T FromOwned(const TVMFFIAny& owned) {
    T text;
    text.value_ = owned;
    return text;
  }
};

}  // namespace detail

template <>
struct TypeTraits<String>
    : detail::BytesTraits<String, kTVMFFISmallStr, kTVMFFIStr, kTVMFFIRawStr> {
  static String FromView(const TVMFFIAny* source) { return source->v_c_str; }
  static std::string TypeStr() { return "str"; }
  static std::string TypeSchema() { return detail::SimpleSchema("ffi.String"); }
};

template <>
struct TypeTraits<Bytes>
    : detail::BytesTraits<Bytes, kTVMFFISmallBytes, kTVMFFIBytes, kTVMFFIByteArrayPtr> {
  static Bytes FromView(const TVMFFIAny* source) {
    return *static_cast<const TVMFFIByteArray*>(source->v_ptr);
  }
  static std::string TypeStr() { return "bytes"; }
  static std::string TypeSchema() { return detail::SimpleSchema("ffi.Bytes"); }
};

/// A C string argument. A view borrows it; owned, it becomes a String.
template <>
struct TypeTraits<const char*> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIRawStr;
  }
  static const char* CopyFromAnyViewAfterCheck(const TVMFFIAny* source) { return source->v_c_str; }
  static void CopyToAnyView(const char* value, TVMFFIAny* out) {
    TVM_FFI_ICHECK_NOTNULL(value);
    detail::WritePOD(out, kTVMFFIRawStr, 0);
    out->v_c_str = value;
  }
  static void MoveToAny(const char* value, TVMFFIAny* out) { detail::WriteOwnedString(value, out); }
  static std::optional<const char*> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIRawStr) return source->v_c_str;
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIRawStr; }
  static std::string TypeSchema() { return detail::SimpleSchema("const char*"); }
};

template <size_t N>
struct TypeTraits<char[N]> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(const char (&value)[N], TVMFFIAny* out) {
    TypeTraits<const char*>::CopyToAnyView(value, out);
  }
  static void MoveToAny(const char (&value)[N], TVMFFIAny* out) {
    detail::WriteOwnedString(value, out);
  }
};

template <>
struct TypeTraits<TVMFFIByteArray*> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(TVMFFIByteArray* value, TVMFFIAny* out) {
    TVM_FFI_ICHECK_NOTNULL(value);
    detail::WritePOD(out, kTVMFFIByteArrayPtr, 0);
    out->v_ptr = value;
  }
  static void MoveToAny(TVMFFIByteArray* value, TVMFFIAny* out) {
    detail::WriteOwnedBytes<detail::BytesObj>(value->data, value->size, out);
  }
  static std::optional<TVMFFIByteArray*> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIByteArrayPtr) {
      return static_cast<TVMFFIByteArray*>(source->v_ptr);
    }
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIByteArrayPtr; }
  static std::string TypeSchema() { return detail::SimpleSchema("TVMFFIByteArray*"); }
};

/// A std::string argument is lent as its C string; a parameter of this type takes any kind of
/// string or bytes.
template <>
struct TypeTraits<std::string> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(const std::string& value, TVMFFIAny* out) {
    TypeTraits<const char*>::CopyToAnyView(value.c_str(), out);
  }
  static void MoveToAny(std::string value, TVMFFIAny* out) { detail::WriteOwnedString(value, out); }
  static std::optional<std::string> TryCastFromAnyView(const TVMFFIAny* source) {
    switch (source->type_index) {
      case kTVMFFIRawStr:
        return std::string(source->v_c_str);
      case kTVMFFIByteArrayPtr: {
        auto* array = static_cast<const TVMFFIByteArray*>(source->v_ptr);
        return std::string(array->data, array->size);
      }
      case kTVMFFISmallStr:
      case kTVMFFIStr:
      case kTVMFFISmallBytes:
      case kTVMFFIBytes:
        return std::string(detail::BytesContent(source));
      default:
        return std::nullopt;
    }
  }
  static std::string TypeStr() { return "std::string"; }
  static std::string TypeSchema() { return detail::SimpleSchema("std::string"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

template <>
struct std::hash<tvm::ffi::Bytes> {
  size_t operator()(const tvm::ffi::Bytes& bytes) const {
    return std::hash<std::string_view>()(bytes);
  }
};
template <>
struct std::hash<tvm::ffi::String> {
  size_t operator()(const tvm::ffi::String& text) const {
    return std::hash<std::string_view>()(text);
  }
};

#include <tvm/ffi/string_escape.h>  // IWYU pragma: export

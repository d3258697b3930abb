// SPDX-License-Identifier: Apache-2.0
// The records that registrations hand to the runtime, and what may be said about them.
#pragma once

#include <tvm/ffi/function.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm {
namespace ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// Base of what registrations take after the name and the function or field; it applies itself to
/// the record.
struct InfoTrait {};
/// Base of those that are about fields.
struct FieldInfoTrait : InfoTrait {};

/// The value of a field that is not given.
class default_value : public FieldInfoTrait {
 public:
  explicit default_value(Any value) : value_(std::move(value)) {}
  void Apply(TVMFFIFieldInfo* info) const {
    info->default_value_or_factory = AnyView(value_).CopyToTVMFFIAny();
    info->flags |= kTVMFFIFieldFlagBitMaskHasDefault;
  }

 private:
  Any value_;
};
using DefaultValue = default_value;

/// Makes the value of a field that is not given.
class default_factory : public FieldInfoTrait {
 public:
  explicit default_factory(Function factory) : factory_(std::move(factory)) {}
  void Apply(TVMFFIFieldInfo* info) const {
    info->default_value_or_factory = AnyView(factory_).CopyToTVMFFIAny();
    info->flags |= kTVMFFIFieldFlagBitMaskHasDefault | kTVMFFIFieldFlagBitMaskDefaultFromFactory;
  }

 private:
  Function factory_;
};

/// Flags of a field.
class AttachFieldFlag : public FieldInfoTrait {
 public:
  explicit AttachFieldFlag(int64_t flag) : flag_(flag) {}
  static AttachFieldFlag SEqHashIgnore() {
    return AttachFieldFlag(kTVMFFIFieldFlagBitMaskSEqHashIgnore);
  }
  static AttachFieldFlag SEqHashDef() { return SEqHashDefPattern(); }
  static AttachFieldFlag SEqHashDefPattern() {
    return AttachFieldFlag(kTVMFFIFieldFlagBitMaskSEqHashDefPattern);
  }
  static AttachFieldFlag SEqHashDefSimple() {
    return AttachFieldFlag(kTVMFFIFieldFlagBitMaskSEqHashDefSimple);
  }
  void Apply(TVMFFIFieldInfo* info) const { info->flags |= flag_; }

 private:
  int64_t flag_;
};

/// A named bit of a field, off unless asked for: `repr(false)`, `kw_only(true)`, …
template <int64_t kFlag, bool kSetWhen>
struct FieldBit : FieldInfoTrait {
  explicit FieldBit(bool value) : value(value) {}
  void Apply(TVMFFIFieldInfo* info) const {
    if (value == kSetWhen) info->flags |= kFlag;
  }
  bool value;
};
using repr = FieldBit<kTVMFFIFieldFlagBitMaskReprOff, false>;
using compare = FieldBit<kTVMFFIFieldFlagBitMaskCompareOff, false>;
using hash = FieldBit<kTVMFFIFieldFlagBitMaskHashOff, false>;
using kw_only = FieldBit<kTVMFFIFieldFlagBitMaskKwOnly, true>;

/// Additional keys in the JSON metadata.
class Metadata : public InfoTrait {
 public:
  Metadata(std::initializer_list<std::pair<String, Any>> entries) : entries_(entries) {}
  const std::vector<std::pair<String, Any>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<String, Any>> entries_;
};

namespace detail {

using ::tvm::ffi::detail::FunctionInfo;

/// Where a field lies from the object's header. The storage stands in for an object that is never
/// made.
template <typename Class, typename Base, typename T>
int64_t FieldOffset(T Base::* field) {
  alignas(Class) static char storage[sizeof(Class)];
  auto* object = reinterpret_cast<Class*>(storage);
  return reinterpret_cast<char*>(&(object->*field)) -
         reinterpret_cast<char*>(static_cast<Object*>(object));
}

/// The JSON object of metadata: the type and what Metadata adds.
class MetadataText {
 public:
  explicit MetadataText(const std::string& schema)
      : text_(::tvm::ffi::detail::MetadataOf(schema)) {}
  void Add(const Metadata& metadata) {
    for (const auto& [key, value] : metadata.entries()) {
      text_.insert(text_.size() - 1, "," + std::string(EscapeStringJSON(key)) + ":" + Json(value));
    }
  }
  TVMFFIByteArray View() const { return ToByteArray(text_); }

 private:
  static std::string Json(const Any& value) {
    if (auto flag = value.as<bool>()) return *flag ? "true" : "false";
    if (auto number = value.as<int64_t>()) return std::to_string(*number);
    if (auto number = value.as<double>()) return std::to_string(*number);
    if (auto text = value.as<String>()) return EscapeStringJSON(*text);
    if (value == nullptr) return "null";
    TVM_FFI_THROW(TypeError) << "metadata cannot hold a " << value.GetTypeKey();
  }

  std::string text_;
};

/// A function or method on its way into the runtime, which copies it.
class MethodRecord {
 public:
  MethodRecord(const char* name, Function function, const std::string& schema)
      : name_(name), function_(std::move(function)), metadata_(schema) {}

  void Apply(const char* doc) { doc_ = doc; }
  void Apply(const std::string& doc) { doc_ = doc; }
  void Apply(const Metadata& metadata) { metadata_.Add(metadata); }

  const TVMFFIMethodInfo* Info(bool is_static) {
    info_.name = ToByteArray(name_);
    info_.doc = ToByteArray(doc_);
    info_.metadata = metadata_.View();
    info_.flags = is_static ? static_cast<int64_t>(kTVMFFIFieldFlagBitMaskIsStaticMethod) : 0;
    info_.method = AnyView(function_).CopyToTVMFFIAny();
    return &info_;
  }

 private:
  std::string name_;
  std::string doc_;
  Function function_;
  MetadataText metadata_;
  TVMFFIMethodInfo info_{};
};

/// full_name appears in the errors about arguments.
template <typename F>
MethodRecord TypedRecord(const char* name, F&& function, std::string full_name) {
  using Decayed = std::decay_t<F>;
  return MethodRecord(name,
                      Function::FromTyped(Decayed(std::forward<F>(function)), std::move(full_name)),
                      FunctionInfo<Decayed>::TypeSchema());
}
template <typename F>
MethodRecord PackedRecord(const char* name, F function) {
  return MethodRecord(name, Function::FromPacked(std::move(function)),
                      ::tvm::ffi::detail::SimpleSchema("ffi.Function"));
}

template <typename T>
int GetField(void* field, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *result = ::tvm::ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(Any(*static_cast<const T*>(field)));
  TVM_FFI_SAFE_CALL_END();
}

template <typename T>
int SetField(void* field, const TVMFFIAny* value) {
  TVM_FFI_SAFE_CALL_BEGIN();
  if constexpr (std::is_same_v<T, Any>) {
    *static_cast<T*>(field) = AnyView::CopyFromTVMFFIAny(*value);
  } else {
    *static_cast<T*>(field) = AnyView::CopyFromTVMFFIAny(*value).cast<T>();
  }
  TVM_FFI_SAFE_CALL_END();
}

/// A field on its way into the runtime, which copies it.
class FieldRecord {
 public:
  template <typename T>
  FieldRecord(const char* name, int64_t offset, bool writable, T* /*type*/)
      : metadata_(::tvm::ffi::detail::TypeSchema<T>::v()) {
    info_.name = ToByteArray(name);
    info_.doc = ToByteArray("");
    info_.flags = writable ? static_cast<int64_t>(kTVMFFIFieldFlagBitMaskWritable) : 0;
    info_.size = sizeof(T);
    info_.alignment = alignof(T);
    info_.offset = offset;
    info_.getter = GetField<T>;
    info_.setter = reinterpret_cast<void*>(SetField<T>);
    info_.field_static_type_index = TypeTraits<T>::field_static_type_index;
  }

  void Apply(const char* doc) { info_.doc = ToByteArray(doc); }
  void Apply(const Metadata& metadata) { metadata_.Add(metadata); }
  template <typename Trait, typename = std::enable_if_t<std::is_base_of_v<FieldInfoTrait, Trait>>>
  void Apply(const Trait& trait) {
    trait.Apply(&info_);
  }

  const TVMFFIFieldInfo* Info() {
    info_.metadata = metadata_.View();
    return &info_;
  }

 private:
  MetadataText metadata_;
  TVMFFIFieldInfo info_{};
};

inline void ApplyToType(TVMFFITypeMetadata* info, const char* doc) { info->doc = ToByteArray(doc); }
template <typename T>
void ApplyToType(TVMFFITypeMetadata*, const T&) {}

template <typename Class>
int CreateObject(TVMFFIObjectHandle* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  ObjectPtr<Class> object;
  if constexpr (std::is_constructible_v<Class, UnsafeInit>) {
    object = make_object<Class>(UnsafeInit{});
  } else {
    object = make_object<Class>();
  }
  *result = ::tvm::ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(object));
  TVM_FFI_SAFE_CALL_END();
}

/// How the runtime makes an object whose fields it sets afterwards; null if that is impossible.
template <typename Class>
TVMFFIObjectCreator CreatorOf() {
  if constexpr (!std::is_abstract_v<Class> && (std::is_constructible_v<Class, UnsafeInit> ||
                                               std::is_default_constructible_v<Class>)) {
    return CreateObject<Class>;
  } else {
    return nullptr;
  }
}

template <typename F>
struct MemberClass;
template <typename R, typename C, typename... Args>
struct MemberClass<R (C::*)(Args...)> {
  using Type = C;
};
template <typename R, typename C, typename... Args>
struct MemberClass<R (C::*)(Args...) const> {
  using Type = C;
};

/// The member function as a function of the object, given as pointer (object types) or reference
/// (reference types).
template <typename Class, typename R, typename Base, typename... Args>
auto BindMethod(R (Base::*method)(Args...)) {
  if constexpr (std::is_base_of_v<ObjectRef, Class>) {
    return [method](Class self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    };
  } else {
    return [method](const Class* self, Args... args) -> R {
      return (const_cast<Class*>(self)->*method)(std::forward<Args>(args)...);
    };
  }
}
template <typename Class, typename R, typename Base, typename... Args>
auto BindMethod(R (Base::*method)(Args...) const) {
  if constexpr (std::is_base_of_v<ObjectRef, Class>) {
    return [method](const Class& self, Args... args) -> R {
      return (self.*method)(std::forward<Args>(args)...);
    };
  } else {
    return [method](const Class* self, Args... args) -> R {
      return (self->*method)(std::forward<Args>(args)...);
    };
  }
}
template <typename Class, typename F, typename = std::enable_if_t<!std::is_member_pointer_v<F>>>
F BindMethod(F function) {
  return function;
}

}  // namespace detail
}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace ffi
}  // namespace tvm

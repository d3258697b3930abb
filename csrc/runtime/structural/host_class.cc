// SPDX-License-Identifier: Apache-2.0
// Types that a host language defines: ffi.MakeFieldGetter and ffi.MakeFieldSetter for their fields,
// ffi._PyClassRegisterTypeAttrColumns for their objects.
#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/containers/on_headers.h"
#include "runtime/core/find_type.h"

namespace graphffi::runtime {
namespace {

using ffi::ObjectRef;

/// How a field is read and written, by what lies in it.
struct Access {
  TVMFFIFieldGetter get;
  TVMFFIFieldSetter set;
};
template <typename T>
constexpr Access kAccess = {refl::detail::GetField<T>, refl::detail::SetField<T>};

/// \throws Error(ValueError) for an index that no field can have
const Access& AccessOf(int32_t type_index) {
  switch (type_index) {
    case kTVMFFIAny:
      return kAccess<Any>;
    case kTVMFFIInt:
      return kAccess<int64_t>;
    case kTVMFFIBool:
      return kAccess<bool>;
    case kTVMFFIFloat:
      return kAccess<double>;
    case kTVMFFIOpaquePtr:
      return kAccess<void*>;
    case kTVMFFIDataType:
      return kAccess<DLDataType>;
    case kTVMFFIDevice:
      return kAccess<DLDevice>;
    default:
      if (type_index >= kTVMFFIStaticObjectBegin && FindType(type_index) != nullptr) {
        return kAccess<ObjectRef>;
      }
      TVM_FFI_THROW(ValueError)
          << "fields: expected the index of a type that a field can have, got " << type_index;
      TVM_FFI_UNREACHABLE();
  }
}

int64_t MakeFieldGetter(int32_t type_index) {
  return reinterpret_cast<int64_t>(AccessOf(type_index).get);
}

/// Takes the address of a field and a value, which `convert(converter, value, result)` makes fit.
ffi::Function MakeFieldSetter(int32_t type_index, int64_t converter, int64_t convert) {
  using Convert = int (*)(void* converter, const TVMFFIAny* value, TVMFFIAny* result);
  auto* function = reinterpret_cast<Convert>(convert);
  if (function == nullptr) {
    TVM_FFI_THROW(ValueError) << "ffi.MakeFieldSetter: expected the address of a function, got 0";
  }
  auto* self = reinterpret_cast<void*>(converter);
  TVMFFIFieldSetter set = AccessOf(type_index).set;
  return ffi::Function::FromTyped([self, function, set](void* field, AnyView value) {
    if (field == nullptr) {
      TVM_FFI_THROW(ValueError) << "field setter: expected the address of a field, got null";
    }
    TVMFFIAny given = value.CopyToTVMFFIAny();
    TVMFFIAny made{};
    TVM_FFI_CHECK_SAFE_CALL(function(self, &given, &made));
    Any converted = ffi::detail::AnyUnsafe::MoveTVMFFIAnyToAny(&made);
    TVMFFIAny view = AnyView(converted).CopyToTVMFFIAny();
    TVM_FFI_CHECK_SAFE_CALL(set(field, &view));
  });
}

/// A type of a host language. It lives as long as the process.
struct HostClass {
  int32_t type_index;
  size_t size;
  /// Offsets of what holds references.
  std::vector<int64_t> values;
  std::vector<int64_t> objects;
};

/// Lies directly before each object of a HostClass.
struct alignas(std::max_align_t) Prefix {
  const HostClass* type;
};

template <typename T>
T* FieldAt(void* object, int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(object) + offset);
}

void Delete(void* object, int flags) {
  Prefix* prefix = static_cast<Prefix*>(object) - 1;
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0) {
    for (int64_t offset : prefix->type->values) FieldAt<Any>(object, offset)->~Any();
    for (int64_t offset : prefix->type->objects) FieldAt<ObjectRef>(object, offset)->~ObjectRef();
  }
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) != 0) std::free(prefix);
}

/// An object whose fields are all zero: None, null, and the number.
ObjectRef MakeEmpty(const HostClass* type) {
  auto* prefix = static_cast<Prefix*>(std::calloc(1, sizeof(Prefix) + type->size));
  if (prefix == nullptr) throw std::bad_alloc();
  prefix->type = type;
  auto* header = reinterpret_cast<TVMFFIObject*>(prefix + 1);
  header->combined_ref_count = ffi::detail::kUniqueCount;
  header->type_index = type->type_index;
  header->deleter = Delete;
  return ObjectRef(ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<ffi::Object>(header));
}

/// \throws Error(TypeError) for an object of another type, which has other fields
ObjectRef CopyShallow(const HostClass* type, const ObjectRef& source) {
  if (!source.defined() || source->type_index() != type->type_index) {
    TVM_FFI_THROW(TypeError) << "__ffi_shallow_copy__: expected `"
                             << ffi::TypeIndexToTypeKey(type->type_index) << "`, got `"
                             << AnyView(source).GetTypeKey() << "`";
  }
  ObjectRef copy = MakeEmpty(type);
  void* from = AnyView(source).CopyToTVMFFIAny().v_obj;
  void* to = AnyView(copy).CopyToTVMFFIAny().v_obj;
  constexpr size_t kHeader = sizeof(TVMFFIObject);
  std::memcpy(FieldAt<char>(to, kHeader), FieldAt<char>(from, kHeader), type->size - kHeader);
  for (int64_t offset : type->values)
    new (FieldAt<Any>(to, offset)) Any(*FieldAt<Any>(from, offset));
  for (int64_t offset : type->objects) {
    new (FieldAt<ObjectRef>(to, offset)) ObjectRef(*FieldAt<ObjectRef>(from, offset));
  }
  return copy;
}

/// Whether a field that may hold anything is a reference that may be null, by its schema.
bool IsOptionalObject(std::string_view schema) {
  if (schema.find("\\\"type\\\":\\\"Optional\\\"") != schema.find("\\\"type\\\"")) return false;
  for (const char* plain : {"int", "float", "bool", "DataType", "Device", "void*"}) {
    if (schema.find(std::string("\\\"") + plain + "\\\"") != schema.npos) return false;
  }
  return true;
}

/// Notes a field that is freed with the object. \throws Error(TypeError) for one of a C++ type
/// that only C++ can make
void AddField(const TVMFFIFieldInfo* field, HostClass* type) {
  if (field->offset < static_cast<int64_t>(sizeof(TVMFFIObject)) || field->size <= 0 ||
      field->size > static_cast<int64_t>(type->size) ||
      field->offset > static_cast<int64_t>(type->size) - field->size) {
    TVM_FFI_THROW(ValueError) << "field `" << ffi::String(field->name) << "`: expected a place in "
                              << "objects of " << type->size << " bytes";
  }
  int32_t index = field->field_static_type_index;
  std::string_view schema(field->metadata.data, field->metadata.size);
  bool is_of_std = schema.find("\\\"type\\\":\\\"std::") < schema.find(',');
  bool holds_any = index == kTVMFFIAny || index == kTVMFFIStr || index == kTVMFFIBytes;
  bool is_plain = index > kTVMFFINone && index < kTVMFFIRawStr && field->size <= 8;
  if (is_plain) return;
  if (holds_any && field->size == sizeof(Any) && !is_of_std) {
    type->values.push_back(field->offset);
  } else if (field->size == sizeof(ObjectRef) &&
             (index >= kTVMFFIStaticObjectBegin || IsOptionalObject(schema))) {
    type->objects.push_back(field->offset);
  } else {
    TVM_FFI_THROW(TypeError) << "field `" << ffi::String(field->name)
                             << "`: expected a type that objects of a host language can hold, got "
                             << ffi::String(field->metadata)
                             << "; define the class that derives from this one in C++";
  }
}

void RegisterAttribute(int32_t type_index, const char* name, const ffi::Function& function) {
  TVMFFIByteArray key = refl::AsByteArray(name);
  TVMFFIAny view = AnyView(function).CopyToTVMFFIAny();
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterAttr(type_index, &key, &view));
}

/// How objects of a type, whose fields are registered, are made, copied and constructed.
void RegisterHostClass(int32_t type_index, int32_t total_size) {
  const TVMFFITypeInfo* info = FindType(type_index);
  if (info == nullptr || type_index < kTVMFFIDynObjectBegin) {
    TVM_FFI_THROW(ValueError) << "ffi._PyClassRegisterTypeAttrColumns: expected the index of a "
                              << "type that a host language defines, got " << type_index;
  }
  if (total_size < static_cast<int32_t>(sizeof(TVMFFIObject))) {
    TVM_FFI_THROW(ValueError) << "ffi._PyClassRegisterTypeAttrColumns: expected the size of an "
                              << "object, got " << total_size;
  }
  auto type = std::make_unique<HostClass>();
  type->type_index = type_index;
  type->size = static_cast<size_t>(total_size);
  refl::ForEachFieldInfo(info, [&](const TVMFFIFieldInfo* field) { AddField(field, type.get()); });
  const HostClass* kept = type.get();
  RegisterAttribute(type_index, ffi::type_attr::kNew.name,
                    ffi::Function::FromTyped([kept] { return MakeEmpty(kept); }));
  static_cast<void>(type.release());
  RegisterAttribute(type_index, ffi::type_attr::kShallowCopy.name,
                    ffi::Function::FromTyped(
                        [kept](const ObjectRef& source) { return CopyShallow(kept, source); }));
  ffi::Function::GetGlobalRequired("ffi._RegisterFFIInit")(type_index);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def("ffi.MakeFieldGetter", MakeFieldGetter)
      .def("ffi.MakeFieldSetter", MakeFieldSetter)
      .def("ffi._PyClassRegisterTypeAttrColumns", RegisterHostClass);
}

}  // namespace
}  // namespace graphffi::runtime

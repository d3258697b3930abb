// SPDX-License-Identifier: Apache-2.0
// ffi.DeepCopy: copies by value, over the fields that types registered.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/enum.h>
#include <tvm/ffi/reflection/registry.h>

#include <unordered_map>

#include "structural.h"

namespace graphffi::runtime {
namespace {

class Copier {
 public:
  Any Copy(const Any& value) {
    const auto* object = value.as<Object>();
    if (object == nullptr) return value;
    auto known = copies_.find(object);
    if (known != copies_.end()) return known->second.copy;
    if (value.as<ffi::EnumObj>() != nullptr) return value;  // one object for each member
    StackGuard guard(&depth_);
    switch (value.type_index()) {
      case kTVMFFIStr:
      case kTVMFFIBytes:
      case kTVMFFIShape:
      case kTVMFFITensor:
      case kTVMFFIBigInt:
        return value;  // immutable, or memory that others share on purpose
      case kTVMFFIArray:
      case kTVMFFIList:
        return CopyItems(value);
      case kTVMFFIMap:
      case kTVMFFIDict:
        return CopyEntries(value);
      default:
        return CopyFields(value);
    }
  }

 private:
  /// The object that was copied lives as long as the map that knows it by its address: what getters
  /// of fields make would not.
  struct Copied {
    Any source, copy;
  };
  void Note(const Any& source, Any copy) {
    copies_[source.as<Object>()] = {source, std::move(copy)};
  }

  // A container may contain itself, an immutable one through others. So its copy is noted before
  // its content is copied, and filled as the mutable container of the same layout.
  template <typename Mutable>
  static Mutable MakeAs(const Any& value) {
    Mutable copy;
    AnyView(copy).CopyToTVMFFIAny().v_obj->type_index = value.type_index();
    return copy;
  }
  Any CopyItems(const Any& value) {
    const Items items(value);
    auto copy = MakeAs<ffi::List<Any>>(value);
    Note(value, AnyView(copy));
    copy.reserve(items.size());
    for (const Any& item : items) copy.push_back(Copy(item));
    return AnyView(copy);
  }
  Any CopyEntries(const Any& value) {
    auto copy = MakeAs<ffi::Dict<Any, Any>>(value);
    Note(value, AnyView(copy));
    for (const auto& [key, item] : Entries(value)) copy.Set(Copy(key), Copy(item));
    return AnyView(copy);
  }
  Any CopyFields(const Any& source) {
    const auto* object = source.as<Object>();
    auto shallow = OwnFunction(ffi::type_attr::kShallowCopy.name, object->type_index());
    if (!shallow.has_value()) {
      TVM_FFI_THROW(RuntimeError) << "Cannot deep copy object of type \"" << object->GetTypeKey()
                                  << "\" because it is not copy-constructible";
    }
    Any copy = (*shallow)(object);
    const auto* target = copy.as<Object>();
    if (target == nullptr || target->type_index() != object->type_index()) {
      TVM_FFI_THROW(TypeError) << "__ffi_shallow_copy__ must give an object of the same type";
    }
    Note(source, copy);
    refl::ForEachFieldInfo(TVMFFIGetTypeInfo(object->type_index()),
                           [&](const TVMFFIFieldInfo* field) {
                             Any value = refl::FieldGetter(field)(object);
                             Any copied = Copy(value);
                             refl::FieldSetter set(field);
                             if (!copied.same_as(value)) set(target, copied);
                           });
    return copy;
  }

  int depth_ = 0;
  std::unordered_map<const Object*, Copied> copies_;
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef().def("ffi.DeepCopy", [](const Any& value) { return Copier().Copy(value); });
}

}  // namespace
}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// ffi.DeepCopy: copies by value, over the fields that types registered.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/reflection/registry.h>

#include <unordered_map>

#include "structural.h"

namespace graphffi::runtime {
namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::Any;
using ffi::AnyView;
using ffi::Object;

class Copier {
 public:
  Any Copy(const Any& value) {
    const auto* object = value.as<Object>();
    if (object == nullptr) return value;
    auto known = copies_.find(object);
    if (known != copies_.end()) return known->second;
    DepthGuard guard(&depth_);
    switch (value.type_index()) {
      case kTVMFFIStr:
      case kTVMFFIBytes:
      case kTVMFFIShape:
      case kTVMFFITensor:
      case kTVMFFIBigInt:
        return value;  // immutable, or memory that others share on purpose
      case kTVMFFIArray:
        return copies_[object] = CopyArray(value.cast<ffi::Array<Any>>());
      case kTVMFFIMap:
        return copies_[object] = CopyMap(value.cast<ffi::Map<Any, Any>>());
      case kTVMFFIList:
        return CopyList(object, value.cast<ffi::List<Any>>());
      case kTVMFFIDict:
        return CopyDict(object, value.cast<ffi::Dict<Any, Any>>());
      default:
        return CopyFields(object);
    }
  }

 private:
  ffi::Array<Any> CopyArray(const ffi::Array<Any>& array) {
    ffi::Array<Any> copy;
    copy.reserve(static_cast<int64_t>(array.size()));
    for (const Any& item : array) copy.push_back(Copy(item));
    return copy;
  }
  ffi::Map<Any, Any> CopyMap(const ffi::Map<Any, Any>& map) {
    ffi::Map<Any, Any> copy;
    for (const auto& [key, value] : map) copy.Set(Copy(key), Copy(value));
    return copy;
  }
  // What may contain itself is known before its content is copied.
  ffi::List<Any> CopyList(const Object* object, const ffi::List<Any>& list) {
    ffi::List<Any> copy;
    copies_[object] = copy;
    for (const Any& item : list) copy.push_back(Copy(item));
    return copy;
  }
  ffi::Dict<Any, Any> CopyDict(const Object* object, const ffi::Dict<Any, Any>& dict) {
    ffi::Dict<Any, Any> copy;
    copies_[object] = copy;
    for (const auto& [key, value] : dict) copy.Set(Copy(key), Copy(value));
    return copy;
  }
  Any CopyFields(const Object* object) {
    const TVMFFIAny* shallow =
        ffi::detail::OptTypeAttr(ffi::type_attr::kShallowCopy.name, object->type_index());
    if (shallow == nullptr) {
      TVM_FFI_THROW(RuntimeError) << "Cannot deep copy object of type \"" << object->GetTypeKey()
                                  << "\" because it is not copy-constructible";
    }
    Any copy = AnyView::CopyFromTVMFFIAny(*shallow).cast<ffi::Function>()(object);
    copies_[object] = copy;
    const auto* target = copy.cast<const Object*>();
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
  std::unordered_map<const Object*, Any> copies_;
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef().def("ffi.DeepCopy", [](const Any& value) { return Copier().Copy(value); });
}

}  // namespace
}  // namespace graphffi::runtime

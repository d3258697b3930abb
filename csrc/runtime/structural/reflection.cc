// SPDX-License-Identifier: Apache-2.0
// Reflection for host languages: the classes of access paths, and objects made from the values of
// their fields.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/creator.h>
#include <tvm/ffi/reflection/registry.h>

#include "runtime/containers/on_headers.h"
#include "runtime/core/find_type.h"

namespace graphffi::runtime {
namespace {

using refl::AccessPath;
using refl::AccessPathObj;
using refl::AccessStepObj;

/// The type with that index or key. \throws Error(ValueError)
const TVMFFITypeInfo* KnownType(ffi::AnyView named) {
  std::optional<int64_t> index = named.as<int64_t>();
  if (index.has_value()) {
    const TVMFFITypeInfo* type =
        static_cast<int32_t>(*index) == *index ? FindType(static_cast<int32_t>(*index)) : nullptr;
    if (type != nullptr) return type;
    TVM_FFI_THROW(ValueError) << "ffi.MakeObjectFromPackedArgs: expected the index of a type, got "
                              << *index;
  }
  ffi::String key = named.cast<ffi::String>();
  try {
    return FindType(ffi::TypeKeyToIndex(key));
  } catch (const ffi::Error&) {
    TVM_FFI_THROW(ValueError)
        << "ffi.MakeObjectFromPackedArgs: expected a type that is registered, got " << key;
  }
  TVM_FFI_UNREACHABLE();
}

/// Takes a type, by index or key, and names with values.
void MakeObject(ffi::PackedArgs args, Any* result) {
  if (args.size() % 2 != 1) {
    TVM_FFI_THROW(TypeError) << "ffi.MakeObjectFromPackedArgs: expected a type and pairs of names "
                                "and values, got "
                             << args.size() << " arguments";
  }
  const TVMFFITypeInfo* type = KnownType(args[0]);
  ffi::Map<ffi::String, Any> fields;
  for (int32_t i = 1; i < args.size(); i += 2) {
    const auto name = args[i].cast<ffi::String>();
    if (fields.count(name) != 0) {
      TVM_FFI_THROW(TypeError) << "ffi.MakeObjectFromPackedArgs: expected each field once, got `"
                               << name << "` twice";
    }
    fields.Set(name, args[i + 1]);
  }
  *result = refl::ObjectCreator(type)(fields);
}

/// The size of built-in types whose objects nobody makes by reflection.
void RegisterSize(int32_t type_index, size_t size) {
  TVMFFITypeMetadata metadata{};
  metadata.doc = refl::AsByteArray("");
  metadata.total_size = static_cast<int32_t>(size);
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterMetadata(type_index, &metadata));
}

template <typename RefType>
void RegisterConversion() {
  refl::TypeAttrDef<typename RefType::ContainerType>().template def_convert<RefType>();
}

TVM_FFI_STATIC_INIT_BLOCK() {
  RegisterSize(kTVMFFIObject, sizeof(TVMFFIObject));
  RegisterSize(kTVMFFIModule, sizeof(ffi::ModuleObj));
  RegisterSize(kTVMFFIBigInt, sizeof(ffi::detail::BigIntObj));
  RegisterConversion<ffi::ObjectRef>();
  RegisterConversion<ffi::Function>();
  RegisterConversion<ffi::Error>();
  RegisterConversion<ffi::Array<Any>>();
  RegisterConversion<ffi::List<Any>>();
  RegisterConversion<ffi::Map<Any, Any>>();
  RegisterConversion<ffi::Dict<Any, Any>>();
  RegisterConversion<ffi::Shape>();
  RegisterConversion<ffi::Tensor>();
  refl::TypeAttrDef<ffi::detail::StringObj>().def_convert<ffi::String>();
  refl::TypeAttrDef<ffi::detail::BytesObj>().def_convert<ffi::Bytes>();
  refl::ObjectDef<AccessStepObj>()
      .def_ro("kind", &AccessStepObj::kind)
      .def_ro("key", &AccessStepObj::key);
  refl::ObjectDef<AccessPathObj>()
      .def_ro("parent", &AccessPathObj::parent)
      .def_ro("step", &AccessPathObj::step)
      .def_ro("depth", &AccessPathObj::depth)
      .def_static("_root", &AccessPath::Root)
      .def("_extend", &AccessPathObj::Extend)
      .def("_attr", &AccessPathObj::Attr)
      .def("_array_item", &AccessPathObj::ArrayItem)
      .def("_map_item", &AccessPathObj::MapItem)
      .def("_attr_missing", &AccessPathObj::AttrMissing)
      .def("_array_item_missing", &AccessPathObj::ArrayItemMissing)
      .def("_map_item_missing", &AccessPathObj::MapItemMissing)
      .def("_is_prefix_of", &AccessPathObj::IsPrefixOf)
      .def("_to_steps", &AccessPathObj::ToSteps)
      .def("_path_equal", &AccessPathObj::PathEqual);
  refl::GlobalDef().def_packed("ffi.MakeObjectFromPackedArgs", MakeObject);
}

}  // namespace
}  // namespace graphffi::runtime

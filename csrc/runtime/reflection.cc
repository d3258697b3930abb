// SPDX-License-Identifier: Apache-2.0
// What host languages reach by reflection: the classes of access paths, objects made of the values
// of their fields.
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/creator.h>
#include <tvm/ffi/reflection/registry.h>

namespace graphffi::runtime {
namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::Any;
using refl::AccessPath;
using refl::AccessPathObj;
using refl::AccessStepObj;

/// Takes a type, by index or key, and names with values.
void MakeObject(ffi::PackedArgs args, Any* result) {
  if (args.size() % 2 != 1) {
    TVM_FFI_THROW(TypeError) << "ffi.MakeObjectFromPackedArgs: expected a type and pairs of names "
                                "and values, got "
                             << args.size() << " arguments";
  }
  std::optional<int32_t> index = args[0].as<int32_t>();
  if (!index.has_value()) index = ffi::TypeKeyToIndex(args[0].cast<ffi::String>());
  ffi::Map<ffi::String, Any> fields;
  for (int32_t i = 1; i < args.size(); i += 2) fields.Set(args[i].cast<ffi::String>(), args[i + 1]);
  *result = refl::ObjectCreator(TVMFFIGetTypeInfo(*index))(fields);
}

TVM_FFI_STATIC_INIT_BLOCK() {
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

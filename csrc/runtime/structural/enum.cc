// SPDX-License-Identifier: Apache-2.0
// The fields of enum types and of their registered state, which host languages make and read.
#include <tvm/ffi/enum.h>
#include <tvm/ffi/reflection/registry.h>

namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::EnumObj;
using ffi::EnumStateObj;

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<EnumStateObj>()
      .def(refl::init<>())
      .def_ro("entries", &EnumStateObj::entries, refl::init(false))
      .def_ro("indexes", &EnumStateObj::indexes, refl::init(false))
      .def_ro("attrs", &EnumStateObj::attrs, refl::init(false));
  refl::ObjectDef<EnumObj>(refl::init(false))
      .def_ro("_int_index", &EnumObj::_int_index, refl::AttachFieldFlag::SEqHashIgnore())
      .def_ro("_str_index", &EnumObj::_str_index);
  refl::ObjectDef<ffi::IntEnumObj>(refl::init(false))
      .def_ro("value", &EnumObj::_int_index, refl::init(false),
              refl::AttachFieldFlag::SEqHashIgnore())
      .def_convert<ffi::IntEnum>();
  refl::ObjectDef<ffi::StrEnumObj>(refl::init(false))
      .def_ro("value", &EnumObj::_str_index, refl::init(false),
              refl::AttachFieldFlag::SEqHashIgnore())
      .def_convert<ffi::StrEnum>();
  refl::EnsureTypeAttrColumn(ffi::type_attr::kEnumState);
}

}  // namespace

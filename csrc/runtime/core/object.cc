// SPDX-License-Identifier: Apache-2.0
// Objects as the C ABI sees them: version, reference counts, opaque objects of the host language.
#include "object.h"

#include "error.h"

namespace graphffi::runtime {
namespace {

struct OpaqueObject {
  TVMFFIObject header;
  TVMFFIOpaqueObjectCell cell;
  void (*deleter)(void* handle);

  ~OpaqueObject() {
    if (deleter != nullptr) deleter(cell.handle);
  }
};

}  // namespace

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

void TVMFFIGetVersion(TVMFFIVersion* out_version) {
  *out_version = {TVM_FFI_VERSION_MAJOR, TVM_FFI_VERSION_MINOR, TVM_FFI_VERSION_PATCH};
}

int TVMFFIObjectIncRef(TVMFFIObjectHandle obj) {
  IncRef(static_cast<TVMFFIObject*>(obj));
  return 0;
}

int TVMFFIObjectDecRef(TVMFFIObjectHandle obj) {
  return Guard([&] { DecRef(static_cast<TVMFFIObject*>(obj)); });
}

int TVMFFIObjectCreateOpaque(void* handle, int32_t type_index, void (*deleter)(void* handle),
                             TVMFFIObjectHandle* out) {
  return Guard([&] {
    if (type_index != kTVMFFIOpaquePyObject) {
      Throw("RuntimeError", "graphffi: opaque object: expected type index ",
            int{kTVMFFIOpaquePyObject}, ", got ", type_index);
    }
    *out =
        MakeObject<OpaqueObject>(type_index, 0, TVMFFIOpaqueObjectCell{handle}, deleter).Release();
  });
}

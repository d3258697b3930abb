// SPDX-License-Identifier: Apache-2.0
// ffi.StructuralKey: keys of maps that are compared by structure.
#include <tvm/ffi/extra/structural_key.h>
#include <tvm/ffi/reflection/registry.h>

namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::Any;
using ffi::StructuralKey;
using ffi::StructuralKeyObj;

int64_t HashOf(const Any& key) { return key.as<StructuralKeyObj>()->hash_i64; }
bool Equal(const Any& a, const Any& b) {
  return a.cast<StructuralKey>() == b.cast<StructuralKey>();
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<StructuralKeyObj>(refl::init(false))
      .def_ro("key", &StructuralKeyObj::key)
      .def_ro("hash_i64", &StructuralKeyObj::hash_i64);
  refl::TypeAttrDef<StructuralKeyObj>()
      .native_fn_attr<&HashOf>(ffi::type_attr::kAnyHash)
      .native_fn_attr<&Equal>(ffi::type_attr::kAnyEqual);
  refl::GlobalDef()
      .def("ffi.StructuralKey", [](const Any& key) { return StructuralKey(key); })
      .def("ffi.StructuralKeyEqual",
           [](const StructuralKey& a, const StructuralKey& b) { return a == b; });
}

}  // namespace

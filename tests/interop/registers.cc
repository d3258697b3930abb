// SPDX-License-Identifier: Apache-2.0
// A kernel that has a name from when its library is loaded.
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/tvm_ffi.h>

void AddOne(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  auto* from = static_cast<float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(out.data_ptr())[i] = from[i] + 1;
}

TVM_FFI_STATIC_INIT_BLOCK() { tvm::ffi::reflection::GlobalDef().def("recorded.add_one", AddOne); }

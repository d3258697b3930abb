// SPDX-License-Identifier: Apache-2.0
// A library of one kernel, for either project's headers.
#include <tvm/ffi/tvm_ffi.h>

namespace {

void Write(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  if (x.dtype() != DLDataType{kDLFloat, 32, 1} || out.dtype() != x.dtype()) {
    TVM_FFI_THROW(TypeError) << "write: expected float32";
  }
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr());
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(write, Write);

// SPDX-License-Identifier: Apache-2.0
// Kernels that do next to nothing, so that what is measured is the call.
#include <tvm/ffi/tvm_ffi.h>

namespace {

void Touch(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr());
}

void TouchScaled(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double scale, double shift) {
  *static_cast<float*>(out.data_ptr()) =
      static_cast<float>(scale * *static_cast<const float*>(x.data_ptr()) + shift);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch, Touch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch_scaled, TouchScaled);

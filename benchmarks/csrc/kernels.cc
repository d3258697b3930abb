// SPDX-License-Identifier: Apache-2.0
// Kernels that do next to nothing, so that nearly all of the time is the call's.
#include <tvm/ffi/tvm_ffi.h>

namespace {

void Touch(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr());
}

void TouchFirst(tvm::ffi::TensorView out, tvm::ffi::TensorView x) { Touch(x, out); }

void TouchScaled(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double scale, double shift) {
  *static_cast<float*>(out.data_ptr()) =
      static_cast<float>(scale * *static_cast<const float*>(x.data_ptr()) + shift);
}

void TouchInts(tvm::ffi::TensorView x, tvm::ffi::TensorView out, tvm::ffi::Array<int64_t> sizes) {
  *static_cast<float*>(out.data_ptr()) =
      *static_cast<const float*>(x.data_ptr()) + static_cast<float>(sizes.size());
}

void TouchText(tvm::ffi::TensorView x, tvm::ffi::TensorView out, tvm::ffi::String text) {
  *static_cast<float*>(out.data_ptr()) =
      *static_cast<const float*>(x.data_ptr()) + static_cast<float>(text.size());
}

void TouchScratch(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  auto scratch =
      tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  *static_cast<float*>(scratch.data_ptr()) = *static_cast<const float*>(x.data_ptr());
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(scratch.data_ptr());
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch_ints, TouchInts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch_text, TouchText);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch_scratch, TouchScratch);
/// Any number of tensors: the last one is written.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_touch_many(void*, const TVMFFIAny* args,
                                                       int32_t num_args, TVMFFIAny*) {
  const auto tensor = [](const TVMFFIAny& value) {
    return value.type_index == kTVMFFIDLTensorPtr ? static_cast<DLTensor*>(value.v_ptr)
                                                  : TVMFFITensorGetDLTensorPtr(value.v_obj);
  };
  *static_cast<float*>(tensor(args[num_args - 1])->data) =
      *static_cast<const float*>(tensor(args[0])->data);
  return 0;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch, Touch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch_first, TouchFirst);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(touch_scaled, TouchScaled);

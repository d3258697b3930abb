// SPDX-License-Identifier: Apache-2.0
// A root mean square norm of rows of HIDDEN elements of type ELEMENT, which the compiler unrolls.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

template <typename T, int64_t kHidden>
void RmsNorm(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps,
             tvm::ffi::TensorView out) {
  const T* scale = static_cast<const T*>(weight.data_ptr());
  const int64_t rows = x.numel() / std::max<int64_t>(kHidden, 1);  // none, where HIDDEN is 0
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = static_cast<const T*>(x.data_ptr()) + row * kHidden;
    T* to = static_cast<T*>(out.data_ptr()) + row * kHidden;
    T sum = 0;
    for (int64_t i = 0; i < kHidden; ++i) sum += from[i] * from[i];
    const T factor = 1 / std::sqrt(sum / kHidden + static_cast<T>(eps));
    for (int64_t i = 0; i < kHidden; ++i) to[i] = from[i] * factor * scale[i];
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, (RmsNorm<ELEMENT, HIDDEN>));

// SPDX-License-Identifier: Apache-2.0
// The kernels that pages take for granted.
#include <graphffi/op.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <cmath>

namespace ffi = tvm::ffi;

float* Data(ffi::TensorView x) { return static_cast<float*>(x.data_ptr()); }

void RmsNorm(ffi::TensorView x, ffi::TensorView weight, double eps, ffi::TensorView out) {
  const int64_t width = weight.numel();
  const int64_t rows = width == 0 ? 0 : x.numel() / width;
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = Data(x) + row * width;
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(from[i]) * from[i];
    const double scale = 1 / std::sqrt(sum / width + eps);
    for (int64_t i = 0; i < width; ++i) {
      Data(out)[row * width + i] = static_cast<float>(from[i] * scale * Data(weight)[i]);
    }
  }
}

void RmsNormInto(ffi::TensorView out, ffi::TensorView x, ffi::TensorView weight, double eps) {
  RmsNorm(x, weight, eps, out);
}

void Append(ffi::TensorView cache, ffi::TensorView x, ffi::TensorView position) {
  const int64_t at = static_cast<const int32_t*>(position.data_ptr())[0];
  std::copy_n(Data(x), x.numel(), Data(cache) + at * x.numel());
}

void Scale(ffi::TensorView x, double factor, ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) Data(out)[i] = static_cast<float>(Data(x)[i] * factor);
}

ffi::Tensor Doubled(ffi::TensorView x) {
  ffi::Tensor out =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  for (int64_t i = 0; i < x.numel(); ++i) Data(out)[i] = 2 * Data(x)[i];
  return out;
}

void Swish(ffi::TensorView x, double beta, ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    Data(out)[i] = static_cast<float>(Data(x)[i] / (1 + std::exp(-beta * Data(x)[i])));
  }
}

void SwishBackward(ffi::TensorView grad, ffi::TensorView x, double beta, ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double s = 1 / (1 + std::exp(-beta * Data(x)[i]));
    Data(out)[i] = static_cast<float>(Data(grad)[i] * (s + beta * Data(x)[i] * s * (1 - s)));
  }
}

void Sort(ffi::TensorView x, ffi::TensorView out) {
  std::copy_n(Data(x), x.numel(), Data(out));
  std::sort(Data(out), Data(out) + x.numel());
}

void Gather(ffi::TensorView x, ffi::TensorView weight, ffi::TensorView index, ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    Data(out)[i] = Data(x)[static_cast<const int32_t*>(index.data_ptr())[i]] * Data(weight)[i];
  }
}

void Flip(ffi::TensorView x, ffi::TensorView out) {
  for (int64_t i = 0, last = x.numel() - 1; i <= last; ++i) {
    Data(out)[i] = Data(x)[(last - i) * x.stride(0)];
  }
}

GRAPHFFI_EXPORT_OP(rms_norm, RmsNorm, "(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
                   "dims: ... [h], [h] -> ... [h]", "dtypes: float32, float32 -> float32");
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm_into, RmsNormInto);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(append, Append);
GRAPHFFI_EXPORT_OP(scale, Scale, "(Tensor x, float factor=1.0) -> Tensor", "dims: ... -> ...");
TVM_FFI_DLL_EXPORT_TYPED_FUNC(doubled, Doubled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swish, Swish);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swish_backward, SwishBackward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sort, Sort);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gather, Gather);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(flip, Flip);

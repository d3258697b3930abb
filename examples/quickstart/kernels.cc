// SPDX-License-Identifier: Apache-2.0
// Two kernels on the CPU: add_one and scale. Their parameters say that they take row-major tensors
// of float32 on the CPU, which calls check.
#include <graphffi/view.h>

using graphffi::View;

void AddOne(View<const float> x, View<float> out) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] + 1.0f;
}

void Scale(View<const float> x, float factor, View<float> out) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] * factor;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);

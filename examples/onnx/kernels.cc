// SPDX-License-Identifier: Apache-2.0
// Three kernels on the CPU: rows are scaled, added up, and their elements passed through a gate.
#include <graphffi/view.h>

#include <cmath>

using graphffi::View;
using tvm::ffi::Optional;

/// x / sqrt(mean(x * x) + eps) of each row, times the weight if there is one.
void Norm(View<const float, 2> x, Optional<View<const float, 1>> weight, double eps,
          View<float, 2> out) {
  const int64_t columns = x.size(1);
  for (int64_t i = 0; i < x.size(0); ++i) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += static_cast<double>(x[i][j]) * x[i][j];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(columns) + eps);
    for (int64_t j = 0; j < columns; ++j) {
      const float value = static_cast<float>(x[i][j] * scale);
      out[i][j] = weight.has_value() ? value * weight.value()[j] : value;
    }
  }
}

/// Adds the rows to a total.
void Accumulate(View<const float, 2> x, View<float, 1> total) {
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(1); ++j) total[j] += x[i][j];
  }
}

/// x / (1 + exp(-x)).
void Gate(View<const float> x, View<float> out) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] / (1 + std::exp(-x[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(norm, Norm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(accumulate, Accumulate);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gate, Gate);

// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm over the last dimension, on each device.
#pragma once

#include <graphffi/operand.h>

namespace kernel_library {

/// out = x / sqrt(mean(x * x) + eps) * weight; x and out: [rows, width], weight: [width], float32.
struct RmsNormCall {
  const float* x;
  const float* weight;
  float* out;
  int64_t rows;
  int64_t width;
  float eps;
};

/// On the current stream of the device. \throws Error(RuntimeError) where the launch fails.
void RmsNormOnCuda(const RmsNormCall& call, DLDevice device);

}  // namespace kernel_library

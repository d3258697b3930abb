// SPDX-License-Identifier: Apache-2.0
#include "rms_norm.h"

#include <graphffi/op.h>

#include <cmath>

namespace kernel_library {

void RmsNormOnCpu(const RmsNormCall& call) {
  for (int64_t row = 0; row < call.rows; ++row) {
    const float* x = call.x + row * call.width;
    float* out = call.out + row * call.width;
    float sum = 0;
    for (int64_t i = 0; i < call.width; ++i) sum += x[i] * x[i];
    const float scale = 1 / std::sqrt(sum / static_cast<float>(call.width) + call.eps);
    for (int64_t i = 0; i < call.width; ++i) out[i] = x[i] * scale * call.weight[i];
  }
}

/// The op's definition has compared sizes and data types already: what is checked here is for those
/// who call the function itself.
void RmsNorm(tvm::ffi::TensorView x_view, tvm::ffi::TensorView weight_view, double eps,
             tvm::ffi::TensorView out_view) {
  const DLDevice device = x_view.device();
  const graphffi::Operand x("rms_norm", "x", x_view, device.device_type),
      weight("rms_norm", "weight", weight_view, device.device_type),
      out("rms_norm", "out", out_view, device.device_type);
  for (const graphffi::Operand* operand : {&x, &weight, &out}) {
    operand->ExpectDtype(graphffi::kFloat32);
    operand->ExpectMinimumRank(1);
  }
  const int64_t width = x.size(-1);
  weight.ExpectShape({width});
  out.ExpectShapeLike(x, width);
  if (x.numel() == 0) return;
  const RmsNormCall call{x.pointer<const float>(),
                         weight.pointer<const float>(),
                         out.pointer<float>(),
                         x.numel() / width,
                         width,
                         static_cast<float>(eps)};
  if (device.device_type == kDLCPU) return RmsNormOnCpu(call);
#if KERNEL_LIBRARY_CUDA
  if (device.device_type == kDLCUDA) return RmsNormOnCuda(call, device);
#endif
  TVM_FFI_THROW(NotImplementedError)
      << "rms_norm: expected tensors on the CPU, got device type " << device.device_type;
}

GRAPHFFI_EXPORT_OP(rms_norm, RmsNorm, "(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
                   "dims: ... [h], [h] -> ... [h]", "dtypes: float32, float32 -> float32",
                   "vmap: broadcast", "allow_cuda_graph: true",
                   "doc: Root-mean-square norm over the last dimension.");

}  // namespace kernel_library

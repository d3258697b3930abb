// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/extra/c_env_api.h>

#include "rms_norm.h"

namespace kernel_library {
namespace {

constexpr int kThreads = 256;

/// A block for each row.
__global__ void RmsNormRows(RmsNormCall call) {
  __shared__ float sums[kThreads];
  const float* x = call.x + blockIdx.x * call.width;
  float* out = call.out + blockIdx.x * call.width;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < call.width; i += kThreads) sum += x[i] * x[i];
  sums[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  __syncthreads();
  const float scale = rsqrtf(sums[0] / static_cast<float>(call.width) + call.eps);
  for (int64_t i = threadIdx.x; i < call.width; i += kThreads) {
    out[i] = x[i] * scale * call.weight[i];
  }
}

}  // namespace

void RmsNormOnCuda(const RmsNormCall& call, DLDevice device) {
  auto stream =
      static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  RmsNormRows<<<static_cast<unsigned>(call.rows), kThreads, 0, stream>>>(call);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) {
    TVM_FFI_THROW(RuntimeError) << "rms_norm: the launch failed: " << cudaGetErrorString(status);
  }
}

}  // namespace kernel_library

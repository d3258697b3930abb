// SPDX-License-Identifier: Apache-2.0
// Ops that double a tensor on a GPU, for `graphffi check`: one is right, the others have a fault.
#include <cuda_runtime.h>
#include <graphffi/op.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

using tvm::ffi::TensorView;

namespace {

__global__ void DoubleKernel(const float* x, float* out, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 2 * x[i];
}

/// Doubles `count` elements; `x` may be the same memory as `out`.
void Launch(const TensorView& x, void* out, int64_t count) {
  const DLDevice device = x.device();
  if (device.device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << "expected a tensor on a GPU";
  if (count <= 0) return;
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(kDLCUDA, device.device_id));
  DoubleKernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(out), count);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(error);
  }
}

}  // namespace

void Doubles(TensorView x, TensorView out) { Launch(x, out.data_ptr(), x.numel()); }

/// Writes one element past its result, from one that it reads past its operand.
void WritesAfter(TensorView x, TensorView out) { Launch(x, out.data_ptr(), x.numel() + 1); }

void LeavesLast(TensorView x, TensorView out) { Launch(x, out.data_ptr(), x.numel() - 1); }

void WritesOperand(TensorView x, TensorView out) {
  Launch(x, out.data_ptr(), x.numel());
  Launch(x, x.data_ptr(), x.numel());
}

/// Writes where there is no memory, for seven elements: the process can use the GPU no more.
void FaultsOnSeven(TensorView x, TensorView out) {
  Launch(x, x.numel() == 7 ? reinterpret_cast<void*>(64) : out.data_ptr(), x.numel());
}

#define EXPORT_DOUBLE(name, function)                                            \
  GRAPHFFI_EXPORT_OP(name, function, "(Tensor x) -> Tensor", "dims: ... -> ...", \
                     "dtypes: float32 -> float32", "allow_cuda_graph: true")

EXPORT_DOUBLE(doubles, Doubles);
EXPORT_DOUBLE(writes_after, WritesAfter);
EXPORT_DOUBLE(leaves_last, LeavesLast);
EXPORT_DOUBLE(writes_operand, WritesOperand);
EXPORT_DOUBLE(faults_on_seven, FaultsOnSeven);

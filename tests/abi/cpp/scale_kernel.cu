// SPDX-License-Identifier: Apache-2.0
// y = factor * x on the GPU, for float16 and float32.
#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/device_guard.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

constexpr DLDataType kFloat32 = DLDataType{kDLFloat, 32, 1};
constexpr DLDataType kFloat16 = DLDataType{kDLFloat, 16, 1};

template <typename T>
__global__ void ScaleKernel(T* out, const T* in, float factor, int64_t n) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = static_cast<T>(static_cast<float>(in[i]) * factor);
}

template <typename T>
void Launch(ffi::TensorView out, ffi::TensorView in, double factor, cudaStream_t stream) {
  constexpr int64_t kThreads = 256;
  int64_t n = in.numel();
  auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  ScaleKernel<T><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(out.data_ptr()),
                                                  static_cast<const T*>(in.data_ptr()),
                                                  static_cast<float>(factor), n);
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

void Scale(ffi::TensorView out, ffi::TensorView in, double factor) {
  TVM_FFI_CHECK(in.device().device_type == kDLCUDA, ValueError) << "in must be a CUDA tensor";
  TVM_FFI_CHECK(in.IsContiguous() && out.is_contiguous(), ValueError) << "must be contiguous";
  TVM_FFI_CHECK_EQ(in.dtype(), out.dtype(), TypeError) << "in and out differ";
  TVM_FFI_ICHECK_EQ(in.numel(), out.numel());
  ffi::CUDADeviceGuard guard(in.device().device_id);
  auto stream =
      static_cast<cudaStream_t>(TVMFFIEnvGetStream(in.device().device_type, in.device().device_id));
  if (in.dtype() == kFloat32) {
    Launch<float>(out, in, factor, stream);
  } else if (in.dtype() == kFloat16) {
    Launch<half>(out, in, factor, stream);
  } else {
    TVM_FFI_THROW(TypeError) << "Unsupported dtype: " << in.dtype();
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);

// SPDX-License-Identifier: Apache-2.0
// CUDA kernels for tests: on the env stream, with scratch memory of the env allocator.
#include <cuda_fp16.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/device_guard.h>
#include <tvm/ffi/tvm_ffi.h>

namespace {

namespace ffi = tvm::ffi;

template <typename T>
__global__ void ScaleKernel(const T* from, T* to, float factor, int64_t count) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < count) to[i] = static_cast<T>(static_cast<float>(from[i]) * factor);
}

/// Keeps the stream busy for about that many clock cycles, then writes.
__global__ void LateFillKernel(float* to, float value, int64_t count, int64_t cycles) {
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = value;
}

cudaStream_t StreamOf(DLDevice device) {
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
}

void CheckOnGpu(ffi::TensorView x) {
  TVM_FFI_CHECK(x.device().device_type == kDLCUDA, ValueError)
      << "operand 'x': expected a tensor on cuda, got " << x.device();
}

template <typename T>
void Launch(ffi::TensorView x, ffi::TensorView out, double factor, cudaStream_t stream) {
  constexpr int64_t kThreads = 256;
  if (x.numel() == 0) return;
  ScaleKernel<T><<<(x.numel() + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      static_cast<const T*>(x.data_ptr()), static_cast<T*>(out.data_ptr()),
      static_cast<float>(factor), x.numel());
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

void Scale(ffi::TensorView x, ffi::TensorView out, double factor) {
  CheckOnGpu(x);
  ffi::CUDADeviceGuard guard(x.device().device_id);
  const cudaStream_t stream = StreamOf(x.device());
  if (x.dtype() == DLDataType{kDLFloat, 32, 1}) {
    Launch<float>(x, out, factor, stream);
  } else if (x.dtype() == DLDataType{kDLFloat, 16, 1}) {
    Launch<__half>(x, out, factor, stream);
  } else {
    TVM_FFI_THROW(TypeError) << "operand 'x': expected float32 or float16, got " << x.dtype();
  }
}

/// As Scale, into memory of the framework that it returns.
ffi::Tensor Scaled(ffi::TensorView x, double factor) {
  CheckOnGpu(x);
  ffi::Tensor out =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  Scale(x, out, factor);
  return out;
}

/// As Scale, through memory of the framework.
void ScaleTwice(ffi::TensorView x, ffi::TensorView out, double factor) {
  CheckOnGpu(x);
  const ffi::Tensor scratch =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  Scale(x, scratch, factor);
  Scale(scratch, out, factor);
}

/// As Scale, through memory that the caller declared.
void ScaleThrough(ffi::TensorView x, ffi::TensorView workspace, ffi::TensorView out,
                  double factor) {
  CheckOnGpu(x);
  ffi::CUDADeviceGuard guard(x.device().device_id);
  float* between = static_cast<float*>(workspace.data_ptr());
  constexpr int64_t kThreads = 256;
  const int64_t blocks = (x.numel() + kThreads - 1) / kThreads;
  const float by = static_cast<float>(factor);
  const cudaStream_t stream = StreamOf(x.device());
  ScaleKernel<float><<<blocks, kThreads, 0, stream>>>(static_cast<const float*>(x.data_ptr()),
                                                      between, by, x.numel());
  ScaleKernel<float><<<blocks, kThreads, 0, stream>>>(between, static_cast<float*>(out.data_ptr()),
                                                      by, x.numel());
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

void LateFill(ffi::TensorView x, ffi::TensorView out, double value, int64_t cycles) {
  CheckOnGpu(x);
  ffi::CUDADeviceGuard guard(x.device().device_id);
  LateFillKernel<<<1, 256, 0, StreamOf(x.device())>>>(
      static_cast<float*>(out.data_ptr()), static_cast<float>(value), out.numel(), cycles);
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());
}

ffi::Tensor LateFilled(ffi::TensorView x, double value, int64_t cycles) {
  CheckOnGpu(x);
  ffi::Tensor out =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  LateFill(x, out, value, cycles);
  return out;
}

void Refuse(ffi::TensorView, ffi::TensorView) { TVM_FFI_THROW(IndexError) << "gpu: refused"; }

/// The env stream that a call with this tensor sees.
int64_t Stream(ffi::TensorView x) { return reinterpret_cast<int64_t>(StreamOf(x.device())); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scaled, Scaled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale_twice, ScaleTwice);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale_through, ScaleThrough);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(late_fill, LateFill);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(late_filled, LateFilled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(refuse, Refuse);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stream, Stream);

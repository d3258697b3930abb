// SPDX-License-Identifier: Apache-2.0
// cuda_api: libraries, kernels and launches of either the CUDA runtime (12.8 and later) or the
// driver, under one set of names.
#pragma once

#include <cuda.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/cuda/base.h>

#include <cstdint>

/// 1: the driver API, which needs -lcuda; 0: the runtime API. Kernel authors may define it.
#ifndef TVM_FFI_CUBIN_LAUNCHER_USE_DRIVER_API
#define TVM_FFI_CUBIN_LAUNCHER_USE_DRIVER_API (CUDART_VERSION < 12080)
#elif !TVM_FFI_CUBIN_LAUNCHER_USE_DRIVER_API && CUDART_VERSION < 12080
#error "the CUDA runtime loads cubins from version 12.8 on: use the driver API"
#endif

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace cuda_api {

#if TVM_FFI_CUBIN_LAUNCHER_USE_DRIVER_API

using ResultType = CUresult;
using StreamHandle = CUstream;
using DeviceHandle = CUdevice;
using LibraryHandle = CUlibrary;
using KernelHandle = CUkernel;
using LaunchConfig = CUlaunchConfig;
using LaunchAttrType = CUlaunchAttribute;
using DeviceAttrType = CUdevice_attribute;
constexpr ResultType kSuccess = CUDA_SUCCESS;

/// Static strings; borrowed.
inline void GetErrorString(ResultType error, const char** name, const char** text) {
  cuGetErrorName(error, name);
  cuGetErrorString(error, text);
}
inline ResultType LoadLibrary(LibraryHandle* library, const void* image) {
  return cuLibraryLoadData(library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
inline ResultType UnloadLibrary(LibraryHandle library) { return cuLibraryUnload(library); }
inline ResultType GetKernel(KernelHandle* kernel, LibraryHandle library, const char* name) {
  return cuLibraryGetKernel(kernel, library, name);
}
inline ResultType GetDeviceCount(int* count) { return cuDeviceGetCount(count); }
inline ResultType GetDeviceAttribute(int* value, DeviceAttrType attr, DeviceHandle device) {
  return cuDeviceGetAttribute(value, attr, device);
}
/// Static shared memory that the kernel uses, in bytes.
inline ResultType GetKernelSharedMem(KernelHandle kernel, int& out, DeviceHandle device) {
  return cuKernelGetAttribute(&out, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel, device);
}
inline ResultType SetKernelMaxDynamicSharedMem(KernelHandle kernel, int bytes,
                                               DeviceHandle device) {
  return cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes, kernel,
                              device);
}
/// args: pointers to the arguments.
inline ResultType LaunchKernel(KernelHandle kernel, void** args, dim3 grid, dim3 block,
                               StreamHandle stream, uint32_t dyn_smem_bytes = 0) {
  return cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), grid.x, grid.y, grid.z, block.x,
                        block.y, block.z, dyn_smem_bytes, stream, args, nullptr);
}
inline ResultType LaunchKernelEx(KernelHandle kernel, void** args, const LaunchConfig& config) {
  return cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), args, nullptr);
}

#else

using ResultType = cudaError_t;
using StreamHandle = cudaStream_t;
using DeviceHandle = int;
using LibraryHandle = cudaLibrary_t;
using KernelHandle = cudaKernel_t;
using LaunchConfig = cudaLaunchConfig_t;
using LaunchAttrType = cudaLaunchAttribute;
using DeviceAttrType = cudaDeviceAttr;
constexpr ResultType kSuccess = cudaSuccess;

/// Static strings; borrowed.
inline void GetErrorString(ResultType error, const char** name, const char** text) {
  *name = cudaGetErrorName(error);
  *text = cudaGetErrorString(error);
}
inline ResultType LoadLibrary(LibraryHandle* library, const void* image) {
  return cudaLibraryLoadData(library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
inline ResultType UnloadLibrary(LibraryHandle library) { return cudaLibraryUnload(library); }
inline ResultType GetKernel(KernelHandle* kernel, LibraryHandle library, const char* name) {
  return cudaLibraryGetKernel(kernel, library, name);
}
inline ResultType GetDeviceCount(int* count) { return cudaGetDeviceCount(count); }
inline ResultType GetDeviceAttribute(int* value, DeviceAttrType attr, DeviceHandle device) {
  return cudaDeviceGetAttribute(value, attr, device);
}
/// Static shared memory that the kernel uses, in bytes.
inline ResultType GetKernelSharedMem(KernelHandle kernel, int& out, DeviceHandle /*device*/) {
  cudaFuncAttributes attributes;
  ResultType result = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
  if (result == kSuccess) out = static_cast<int>(attributes.sharedSizeBytes);
  return result;
}
inline ResultType SetKernelMaxDynamicSharedMem(KernelHandle kernel, int bytes,
                                               DeviceHandle device) {
  return cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes,
                                         device);
}
/// args: pointers to the arguments.
inline ResultType LaunchKernel(KernelHandle kernel, void** args, dim3 grid, dim3 block,
                               StreamHandle stream, uint32_t dyn_smem_bytes = 0) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, args, dyn_smem_bytes,
                          stream);
}
inline ResultType LaunchKernelEx(KernelHandle kernel, void** args, const LaunchConfig& config) {
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), args);
}

#endif

/// Throws a RuntimeError if a call of cuda_api fails.
#define TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR(stmt)                                   \
  do {                                                                                  \
    ::tvm::ffi::cuda_api::ResultType tvm_ffi_cuda_error_ = (stmt);                      \
    if (TVM_FFI_PREDICT_FALSE(tvm_ffi_cuda_error_ != ::tvm::ffi::cuda_api::kSuccess)) { \
      const char* tvm_ffi_cuda_name_ = "unknown";                                       \
      const char* tvm_ffi_cuda_text_ = "";                                              \
      ::tvm::ffi::cuda_api::GetErrorString(tvm_ffi_cuda_error_, &tvm_ffi_cuda_name_,    \
                                           &tvm_ffi_cuda_text_);                        \
      TVM_FFI_THROW(RuntimeError) << "CUDA Error: " << tvm_ffi_cuda_name_ << " ("       \
                                  << static_cast<int>(tvm_ffi_cuda_error_)              \
                                  << "): " << tvm_ffi_cuda_text_;                       \
    }                                                                                   \
  } while (0)

inline DeviceHandle GetDeviceHandle(int device_id) {
#if TVM_FFI_CUBIN_LAUNCHER_USE_DRIVER_API
  CUdevice device = 0;
  TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR(cuDeviceGet(&device, device_id));
  return device;
#else
  return device_id;
#endif
}

/// Fills config, and attr if there is more than one block in a cluster; config refers to attr.
inline ResultType ConstructLaunchConfig(KernelHandle /*kernel*/, StreamHandle stream,
                                        uint32_t smem_size, dim3 grid, dim3 block, int cluster_dim,
                                        LaunchConfig& config, LaunchAttrType& attr) {
  config = LaunchConfig{};
  auto cluster = static_cast<unsigned int>(cluster_dim);
#if TVM_FFI_CUBIN_LAUNCHER_USE_DRIVER_API
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = block.x;
  config.blockDimY = block.y;
  config.blockDimZ = block.z;
  config.sharedMemBytes = smem_size;
  config.hStream = stream;
  attr.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attr.value.clusterDim = {cluster, 1, 1};
#else
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = smem_size;
  config.stream = stream;
  attr.id = cudaLaunchAttributeClusterDimension;
  attr.val.clusterDim = {cluster, 1, 1};
#endif
  if (cluster_dim > 1) {
    config.attrs = &attr;
    config.numAttrs = 1;
  }
  return kSuccess;
}

}  // namespace cuda_api
}  // namespace graphffi_v1
}  // namespace tvm::ffi

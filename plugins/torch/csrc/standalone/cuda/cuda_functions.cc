// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's driver that generated code calls by their names, found at their first
// use: a library that has kernels for CUDA loads where there is no driver.
#include <cstdint>

#include "modules/cuda_driver.h"

namespace {

/// The driver's function of that name, which is like `own`.
template <typename F>
F* Find(F* own, const char* name) {
  graphffi::modules::CudaDriver::Get().Find(name, &own);
  return own;
}

}  // namespace

extern "C" {

int cuGetErrorString(int status, const char** text) {
  static const auto forwarded = Find(&cuGetErrorString, "cuGetErrorString");
  return forwarded(status, text);
}

int cuModuleLoadData(void** module, const void* image) {
  static const auto forwarded = Find(&cuModuleLoadData, "cuModuleLoadData");
  return forwarded(module, image);
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  static const auto forwarded = Find(&cuModuleGetFunction, "cuModuleGetFunction");
  return forwarded(function, module, name);
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
  static const auto forwarded = Find(&cuFuncSetAttribute, "cuFuncSetAttribute");
  return forwarded(function, attribute, value);
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** parameters, void** extra) {
  static const auto forwarded = Find(&cuLaunchKernel, "cuLaunchKernel");
  return forwarded(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                   stream, parameters, extra);
}

int cuTensorMapEncodeTiled(void* map, int dtype, uint32_t rank, void* data, const uint64_t* sizes,
                           const uint64_t* strides, const uint32_t* box,
                           const uint32_t* element_strides, int interleave, int swizzle,
                           int promotion, int fill) {
  static const auto forwarded = Find(&cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled");
  return forwarded(map, dtype, rank, data, sizes, strides, box, element_strides, interleave,
                   swizzle, promotion, fill);
}

}  // extern "C"

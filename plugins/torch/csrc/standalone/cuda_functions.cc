// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's driver that generated code calls by their names, found at their first
// use: a library that has kernels for CUDA loads where there is no driver.
#include <cstdint>

#include "modules/cuda_driver.h"

namespace {

template <typename... Parameters>
class Forwarded {
 public:
  explicit Forwarded(const char* name) {
    graphffi::modules::CudaDriver::Get().Find(name, &function_);
  }
  int operator()(Parameters... arguments) const { return function_(arguments...); }

 private:
  int (*function_)(Parameters...) = nullptr;
};

}  // namespace

extern "C" {

int cuGetErrorString(int status, const char** text) {
  static const Forwarded<int, const char**> forwarded("cuGetErrorString");
  return forwarded(status, text);
}

int cuModuleLoadData(void** module, const void* image) {
  static const Forwarded<void**, const void*> forwarded("cuModuleLoadData");
  return forwarded(module, image);
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  static const Forwarded<void**, void*, const char*> forwarded("cuModuleGetFunction");
  return forwarded(function, module, name);
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
  static const Forwarded<void*, int, int> forwarded("cuFuncSetAttribute");
  return forwarded(function, attribute, value);
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** parameters, void** extra) {
  static const Forwarded<void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void*, void**, void**>
      forwarded("cuLaunchKernel");
  return forwarded(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                   stream, parameters, extra);
}

int cuTensorMapEncodeTiled(void* map, int dtype, uint32_t rank, void* data, const uint64_t* sizes,
                           const uint64_t* strides, const uint32_t* box,
                           const uint32_t* element_strides, int interleave, int swizzle,
                           int promotion, int fill) {
  static const Forwarded<void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                         const uint32_t*, const uint32_t*, int, int, int, int>
      forwarded("cuTensorMapEncodeTiled");
  return forwarded(map, dtype, rank, data, sizes, strides, box, element_strides, interleave,
                   swizzle, promotion, fill);
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Checks on calls of the CUDA runtime, and launch dimensions.
#pragma once

#include <cuda_runtime.h>
#include <tvm/ffi/error.h>

#include <cstdint>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Throws a RuntimeError if a call of the CUDA runtime fails.
#define TVM_FFI_CHECK_CUDA_ERROR(stmt)                                                 \
  do {                                                                                 \
    cudaError_t tvm_ffi_cuda_error_ = (stmt);                                          \
    if (TVM_FFI_PREDICT_FALSE(tvm_ffi_cuda_error_ != cudaSuccess)) {                   \
      TVM_FFI_THROW(RuntimeError) << "CUDA Runtime Error: "                            \
                                  << cudaGetErrorName(tvm_ffi_cuda_error_) << " ("     \
                                  << static_cast<int>(tvm_ffi_cuda_error_)             \
                                  << "): " << cudaGetErrorString(tvm_ffi_cuda_error_); \
    }                                                                                  \
  } while (0)

/// Grid or block dimensions.
struct dim3 {
  unsigned int x = 1;
  unsigned int y = 1;
  unsigned int z = 1;
  dim3() = default;
  explicit dim3(unsigned int x_) : x(x_) {}
  dim3(unsigned int x_, unsigned int y_, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
  operator ::dim3() const { return ::dim3(x, y, z); }  // NOLINT(runtime/explicit)
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// Signatures of CUDA kernels, as text: `scale(tensor, tensor, float32, int64)`.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graphffi::modules {

/// The types of parameters: a tensor arrives as its data pointer.
enum class CudaType : uint8_t {
  kTensor,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat32,
  kFloat64,
};

/// One parameter, as the driver reads it through a pointer.
union CudaSlot {
  void* pointer;
  uint64_t bits;
  float float32;
  double float64;
};

struct CudaSignature {
  std::string name;
  std::vector<CudaType> parameters;

  /// The JSON that describes the function that launches the kernel: its parameters and the launch.
  std::string Metadata() const;
};

/// One signature a line. \throws Error(ValueError) that shows a bad line.
std::vector<CudaSignature> ParseCudaSignatures(std::string_view text);

/// Converts one argument. Sets `device_id` if it is a tensor; nothing before the first one.
/// \throws Error(TypeError or ValueError) naming kernel and argument
CudaSlot PackCudaArgument(const CudaSignature& signature, int index, tvm::ffi::AnyView value,
                          std::optional<int>* device_id);

}  // namespace graphffi::modules

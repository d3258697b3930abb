// SPDX-License-Identifier: Apache-2.0
#include "ort/device_copy.h"

#include <cstdint>
#include <cstring>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/value.h"
#include "modules/cuda_driver.h"

namespace graphffi_onnxruntime {

namespace {

void CopyOnCuda(const void* from, void* to, size_t num_bytes, void* stream) {
  using graphffi::modules::CudaDriver;
  using Copy = CudaDriver::Status(uint64_t to, uint64_t from, size_t num_bytes, void* stream);
  static Copy* const copy = [] {
    Copy* found = nullptr;
    CudaDriver::Get().Find("cuMemcpyDtoDAsync_v2", &found);
    return found;
  }();
  CudaDriver::Get().Check(
      copy(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), num_bytes, stream),
      "copy an operand");
}

}  // namespace

void CopyOnDevice(const DLTensor& tensor, void* data, void* stream) {
  const size_t num_bytes = graphffi::BytesOf(tensor);
  if (num_bytes == 0) return;
  const void* from = graphffi::DataOf(tensor);
  if (tensor.device.device_type == kDLCPU) {
    std::memcpy(data, from, num_bytes);
  } else if (tensor.device.device_type == kDLCUDA) {
    CopyOnCuda(from, data, num_bytes, stream);
  } else {
    throw graphffi::Error("NotImplementedError",
                          "graphffi: expected an operand that is updated on cpu or cuda, got one "
                          "on " +
                              graphffi::DeviceToName(tensor.device));
  }
}

}  // namespace graphffi_onnxruntime

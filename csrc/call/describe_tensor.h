// SPDX-License-Identifier: Apache-2.0
// Tensors, data types, devices and numbers of things in texts.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>
#include <string_view>

namespace graphffi {

/// "1 byte", "2 bytes".
std::string Counted(int64_t count, const char* noun);

/// "float32[2, 3] on cuda:0". \throws Error
std::string DescribeTensor(const DLTensor& tensor);

/// "float32", "complex64x2". \throws Error
std::string DTypeName(DLDataType dtype);

/// The reverse. \throws Error(ValueError)
DLDataType DTypeFromName(std::string_view name);

/// Devices as users write them: "cpu", "cuda:1". The CPU's index 0 is left out.
std::string DeviceToName(DLDevice device);

/// The reverse, of "type" or "type:index". \throws Error(ValueError) with the known types.
DLDevice DeviceFromName(std::string_view name);

}  // namespace graphffi

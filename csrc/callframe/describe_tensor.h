// SPDX-License-Identifier: Apache-2.0
// Tensors and data types in texts.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>
#include <string_view>

namespace graphffi {

/// "float32[2, 3] on cuda:0". \throws Error
std::string DescribeTensor(const DLTensor& tensor);

/// "float32", "complex64x2". \throws Error
std::string DTypeName(DLDataType dtype);

/// The reverse. \throws Error(ValueError)
DLDataType DTypeFromName(std::string_view name);

}  // namespace graphffi

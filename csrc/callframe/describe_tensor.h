// SPDX-License-Identifier: Apache-2.0
// Tensors in the text of errors.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>

namespace graphffi {

/// "float32[2, 3] on cuda:0". \throws Error
std::string DescribeTensor(const DLTensor& tensor);

/// "float32". \throws Error
std::string DTypeName(DLDataType dtype);

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Data types of ONNX Runtime's and DLPack's.
#pragma once

#include <dlpack/dlpack.h>

#include <string>

namespace graphffi_onnxruntime {

/// Bits are 0 for what kernels can't be given.
inline DLDataType ToDLPack(int type) {
  extern const DLDataType kDataTypes[24];
  return type >= 0 && type < 24 ? kDataTypes[type] : DLDataType{};
}

/// "float32", or ONNX Runtime's number.
std::string DataTypeName(int type);

/// 0, "undefined", for what ONNX Runtime does not have.
int FromDLPack(DLDataType dtype);

}  // namespace graphffi_onnxruntime

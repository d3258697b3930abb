// SPDX-License-Identifier: Apache-2.0
// XLA's data types as DLPack's.
#pragma once

#include <dlpack/dlpack.h>

#include <string>

#include "xla_ffi.h"

namespace graphffi {

/// bits 0 stands for what DLPack can't say (a token, an unknown type).
DLDataType ToDLPack(xla::DataType dtype);

/// As errors name it: "float32", "bfloat16", "bool", "a token".
std::string DataTypeName(xla::DataType dtype);

}  // namespace graphffi

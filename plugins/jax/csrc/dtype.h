// SPDX-License-Identifier: Apache-2.0
// XLA's data types as DLPack's.
#pragma once

#include <dlpack/dlpack.h>

#include <string>

#include "xla_ffi.h"

namespace graphffi {

constexpr int kNumDataTypes = xla::kF8E8M0FNU + 1;

/// Indexed by xla::DataType.
struct DataTypes {
  const char* names[kNumDataTypes];
  DLDataType dtypes[kNumDataTypes];
};
extern const DataTypes kDataTypes;

/// bits 0 stands for what DLPack can't say (a token, an unknown type).
inline DLDataType ToDLPack(xla::DataType dtype) {
  return dtype >= 0 && dtype < kNumDataTypes ? kDataTypes.dtypes[dtype] : DLDataType{};
}

/// As errors name it: "float32", "bfloat16", "bool", "a token".
std::string DataTypeName(xla::DataType dtype);

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// XLA's data types as DLPack's.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <string>

#include "xla_ffi.h"

namespace graphffi_jax {

constexpr int kNumDataTypes = xla::kF8E8M0FNU + 1;

/// Indexed by xla::DataType.
extern const DLDataType kDataTypes[kNumDataTypes];

/// bits 0 stands for what DLPack can't say (a token, an unknown type).
inline DLDataType ToDLPack(xla::DataType dtype) {
  const auto index = static_cast<uint32_t>(dtype);
  return kDataTypes[index < kNumDataTypes ? index : uint32_t{xla::kInvalid}];
}

/// As errors name it: "float32", "bfloat16", "bool", "a token".
std::string DataTypeName(xla::DataType dtype);

}  // namespace graphffi_jax

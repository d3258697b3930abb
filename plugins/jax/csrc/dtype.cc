// SPDX-License-Identifier: Apache-2.0
#include "dtype.h"

namespace graphffi_jax {
namespace {

struct Filled : DataTypes {
  constexpr Filled() : DataTypes{} {
    Set(xla::kPred, "bool", kDLBool, 8);
    Set(xla::kS1, "int1", kDLInt, 1);
    Set(xla::kS2, "int2", kDLInt, 2);
    Set(xla::kS4, "int4", kDLInt, 4);
    Set(xla::kS8, "int8", kDLInt, 8);
    Set(xla::kS16, "int16", kDLInt, 16);
    Set(xla::kS32, "int32", kDLInt, 32);
    Set(xla::kS64, "int64", kDLInt, 64);
    Set(xla::kU1, "uint1", kDLUInt, 1);
    Set(xla::kU2, "uint2", kDLUInt, 2);
    Set(xla::kU4, "uint4", kDLUInt, 4);
    Set(xla::kU8, "uint8", kDLUInt, 8);
    Set(xla::kU16, "uint16", kDLUInt, 16);
    Set(xla::kU32, "uint32", kDLUInt, 32);
    Set(xla::kU64, "uint64", kDLUInt, 64);
    Set(xla::kF16, "float16", kDLFloat, 16);
    Set(xla::kF32, "float32", kDLFloat, 32);
    Set(xla::kF64, "float64", kDLFloat, 64);
    Set(xla::kBF16, "bfloat16", kDLBfloat, 16);
    Set(xla::kC64, "complex64", kDLComplex, 64);
    Set(xla::kC128, "complex128", kDLComplex, 128);
    Set(xla::kF8E3M4, "float8_e3m4", kDLFloat8_e3m4, 8);
    Set(xla::kF8E4M3, "float8_e4m3", kDLFloat8_e4m3, 8);
    Set(xla::kF8E4M3FN, "float8_e4m3fn", kDLFloat8_e4m3fn, 8);
    Set(xla::kF8E4M3FNUZ, "float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8);
    Set(xla::kF8E4M3B11FNUZ, "float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8);
    Set(xla::kF8E5M2, "float8_e5m2", kDLFloat8_e5m2, 8);
    Set(xla::kF8E5M2FNUZ, "float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8);
    Set(xla::kF8E8M0FNU, "float8_e8m0fnu", kDLFloat8_e8m0fnu, 8);
    Set(xla::kF4E2M1FN, "float4_e2m1fn", kDLFloat4_e2m1fn, 4);
  }
  constexpr void Set(xla::DataType dtype, const char* name, int code, int bits) {
    names[dtype] = name;
    dtypes[dtype].code = static_cast<uint8_t>(code);
    dtypes[dtype].bits = static_cast<uint8_t>(bits);
    dtypes[dtype].lanes = 1;
  }
};

}  // namespace

const DataTypes kDataTypes = Filled();

std::string DataTypeName(xla::DataType dtype) {
  if (dtype == xla::kToken) return "a token";
  if (dtype >= 0 && dtype < kNumDataTypes && kDataTypes.names[dtype] != nullptr) {
    return kDataTypes.names[dtype];
  }
  return "XLA data type " + std::to_string(dtype);
}

}  // namespace graphffi_jax

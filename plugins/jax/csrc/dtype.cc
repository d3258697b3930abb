// SPDX-License-Identifier: Apache-2.0
#include "dtype.h"

#include "call/describe_tensor.h"

namespace graphffi_jax {
namespace {

struct Filled : DataTypes {
  constexpr Filled() : DataTypes{} {
    Set(xla::kPred, kDLBool, 8);
    Set(xla::kS1, kDLInt, 1);
    Set(xla::kS2, kDLInt, 2);
    Set(xla::kS4, kDLInt, 4);
    Set(xla::kS8, kDLInt, 8);
    Set(xla::kS16, kDLInt, 16);
    Set(xla::kS32, kDLInt, 32);
    Set(xla::kS64, kDLInt, 64);
    Set(xla::kU1, kDLUInt, 1);
    Set(xla::kU2, kDLUInt, 2);
    Set(xla::kU4, kDLUInt, 4);
    Set(xla::kU8, kDLUInt, 8);
    Set(xla::kU16, kDLUInt, 16);
    Set(xla::kU32, kDLUInt, 32);
    Set(xla::kU64, kDLUInt, 64);
    Set(xla::kF16, kDLFloat, 16);
    Set(xla::kF32, kDLFloat, 32);
    Set(xla::kF64, kDLFloat, 64);
    Set(xla::kBF16, kDLBfloat, 16);
    Set(xla::kC64, kDLComplex, 64);
    Set(xla::kC128, kDLComplex, 128);
    Set(xla::kF8E3M4, kDLFloat8_e3m4, 8);
    Set(xla::kF8E4M3, kDLFloat8_e4m3, 8);
    Set(xla::kF8E4M3FN, kDLFloat8_e4m3fn, 8);
    Set(xla::kF8E4M3FNUZ, kDLFloat8_e4m3fnuz, 8);
    Set(xla::kF8E4M3B11FNUZ, kDLFloat8_e4m3b11fnuz, 8);
    Set(xla::kF8E5M2, kDLFloat8_e5m2, 8);
    Set(xla::kF8E5M2FNUZ, kDLFloat8_e5m2fnuz, 8);
    Set(xla::kF8E8M0FNU, kDLFloat8_e8m0fnu, 8);
    Set(xla::kF4E2M1FN, kDLFloat4_e2m1fn, 4);
  }
  constexpr void Set(xla::DataType dtype, int code, int bits) {
    dtypes[dtype].code = static_cast<uint8_t>(code);
    dtypes[dtype].bits = static_cast<uint8_t>(bits);
    dtypes[dtype].lanes = 1;
  }
};

}  // namespace

const DataTypes kDataTypes = Filled();

std::string DataTypeName(xla::DataType dtype) {
  if (dtype == xla::kToken) return "a token";
  const DLDataType known = ToDLPack(dtype);
  return known.bits != 0 ? graphffi::DTypeName(known) : "XLA data type " + std::to_string(dtype);
}

}  // namespace graphffi_jax

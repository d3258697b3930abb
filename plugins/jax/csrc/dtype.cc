// SPDX-License-Identifier: Apache-2.0
#include "dtype.h"

#include "call/describe_tensor.h"

namespace graphffi_jax {

const DLDataType kDataTypes[kNumDataTypes] = {
    {},                             // kInvalid
    {kDLBool, 8, 1},                // kPred
    {kDLInt, 8, 1},                 // kS8
    {kDLInt, 16, 1},                // kS16
    {kDLInt, 32, 1},                // kS32
    {kDLInt, 64, 1},                // kS64
    {kDLUInt, 8, 1},                // kU8
    {kDLUInt, 16, 1},               // kU16
    {kDLUInt, 32, 1},               // kU32
    {kDLUInt, 64, 1},               // kU64
    {kDLFloat, 16, 1},              // kF16
    {kDLFloat, 32, 1},              // kF32
    {kDLFloat, 64, 1},              // kF64
    {},                             // none
    {},                             // none
    {kDLComplex, 64, 1},            // kC64
    {kDLBfloat, 16, 1},             // kBF16
    {},                             // kToken
    {kDLComplex, 128, 1},           // kC128
    {kDLFloat8_e5m2, 8, 1},         // kF8E5M2
    {kDLFloat8_e4m3fn, 8, 1},       // kF8E4M3FN
    {kDLInt, 4, 1},                 // kS4
    {kDLUInt, 4, 1},                // kU4
    {kDLFloat8_e4m3b11fnuz, 8, 1},  // kF8E4M3B11FNUZ
    {kDLFloat8_e5m2fnuz, 8, 1},     // kF8E5M2FNUZ
    {kDLFloat8_e4m3fnuz, 8, 1},     // kF8E4M3FNUZ
    {kDLInt, 2, 1},                 // kS2
    {kDLUInt, 2, 1},                // kU2
    {kDLFloat8_e4m3, 8, 1},         // kF8E4M3
    {kDLFloat8_e3m4, 8, 1},         // kF8E3M4
    {kDLInt, 1, 1},                 // kS1
    {kDLUInt, 1, 1},                // kU1
    {kDLFloat4_e2m1fn, 4, 1},       // kF4E2M1FN
    {kDLFloat8_e8m0fnu, 8, 1},      // kF8E8M0FNU
};

std::string DataTypeName(xla::DataType dtype) {
  if (dtype == xla::kToken) return "a token";
  const DLDataType known = ToDLPack(dtype);
  return known.bits != 0 ? graphffi::DTypeName(known) : "XLA data type " + std::to_string(dtype);
}

}  // namespace graphffi_jax

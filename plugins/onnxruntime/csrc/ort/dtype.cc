// SPDX-License-Identifier: Apache-2.0
#include "ort/dtype.h"

#include <tvm/ffi/dtype.h>

#include "call/describe_tensor.h"

namespace graphffi_onnxruntime {

extern const DLDataType kDataTypes[24] = {
    {},                          // undefined
    {kDLFloat, 32, 1},           //
    {kDLUInt, 8, 1},             //
    {kDLInt, 8, 1},              //
    {kDLUInt, 16, 1},            //
    {kDLInt, 16, 1},             //
    {kDLInt, 32, 1},             //
    {kDLInt, 64, 1},             //
    {},                          // strings
    {kDLBool, 8, 1},             //
    {kDLFloat, 16, 1},           //
    {kDLFloat, 64, 1},           //
    {kDLUInt, 32, 1},            //
    {kDLUInt, 64, 1},            //
    {kDLComplex, 64, 1},         //
    {kDLComplex, 128, 1},        //
    {kDLBfloat, 16, 1},          //
    {kDLFloat8_e4m3fn, 8, 1},    //
    {kDLFloat8_e4m3fnuz, 8, 1},  //
    {kDLFloat8_e5m2, 8, 1},      //
    {kDLFloat8_e5m2fnuz, 8, 1},  //
    {kDLUInt, 4, 1},             //
    {kDLInt, 4, 1},              //
    {kDLFloat4_e2m1fn, 4, 1},    //
};

std::string DataTypeName(int type) {
  const DLDataType known = ToDLPack(type);
  if (type == 8) return "strings";
  return known.bits != 0 ? graphffi::DTypeName(known)
                         : "ONNX Runtime's data type " + std::to_string(type);
}

int FromDLPack(DLDataType dtype) {
  for (int type = 1; type < 24; ++type) {
    if (kDataTypes[type].bits != 0 && kDataTypes[type] == dtype) return type;
  }
  return 0;
}

}  // namespace graphffi_onnxruntime

// SPDX-License-Identifier: Apache-2.0
// The element types of these kernels.
#pragma once

#include <graphffi/operand.h>

#include "element.h"

namespace llama {

namespace ffi = tvm::ffi;
using graphffi::Indices;
using graphffi::kBFloat16;
using graphffi::kBool;
using graphffi::kFloat32;
using graphffi::kInt32;
using graphffi::kInt64;
using graphffi::Operand;
using graphffi::Rows;

/// Calls `body` with a value of the element type of `operand`, which is float32 or bfloat16.
template <typename Body>
void DispatchFloating(const Operand& operand, const Body& body) {
  operand.ExpectDtype({kFloat32, kBFloat16});
  if (operand.dtype() == kFloat32) return body(float{});
  return body(BFloat16{});
}

}  // namespace llama

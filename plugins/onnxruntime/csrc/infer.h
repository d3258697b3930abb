// SPDX-License-Identifier: Apache-2.0
// The types and sizes of a node's outputs, while its session is made.
#pragma once

#include "op.h"

namespace graphffi_onnxruntime {

/// Says the outputs' data types, and their sizes as far as the inputs' are known.
/// \throws Error for a node that is wrong; ONNX Runtime ignores it, and the node says it once its
/// kernel is made.
void InferOutputs(const Op& op, ort::ShapeInferContext* context);

}  // namespace graphffi_onnxruntime

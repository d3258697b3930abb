// SPDX-License-Identifier: Apache-2.0
// Which results of a node may be in the memory of an operand that dies there.
#pragma once

#include <vector>

#include "ort/ort_api.h"

namespace graphffi_onnxruntime {

/// An input and an output of a node, by position.
struct MemoryPair {
  int input, output;
  bool operator==(const MemoryPair& other) const {
    return input == other.input && output == other.output;
  }
};

/// Sets the functions of `op` that give these pairs. ONNX Runtime passes them no op, so that each
/// list of pairs takes functions of its own; there are some for kMostPairs lists. Ops with other
/// lists get a copy of each operand that they update.
void SetMayInplace(const std::vector<MemoryPair>& pairs, ort::CustomOp* op);
constexpr int kMostPairs = 64;

}  // namespace graphffi_onnxruntime

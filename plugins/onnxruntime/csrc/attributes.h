// SPDX-License-Identifier: Apache-2.0
// The values of a node's attributes.
#pragma once

#include <tvm/ffi/any.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "call/plan.h"
#include "node_text.h"
#include "ort/status.h"

namespace graphffi_onnxruntime {

/// A node's text; nullopt if it has no attribute of that name, or one of another kind.
std::optional<std::string> StringOf(const ort::Api* api, const ort::KernelInfo* info,
                                    const std::string& name);

/// An attribute's bytes, while shapes are inferred: of its text or of its numbers.
std::string BytesOf(const ort::Api* api, const ort::ShapeInferContext* context,
                    const std::string& name, int kind);

struct Attributes {
  /// \throws Error for one that the node lacks, or has of another kind or length, or on whose
  /// former value the text depends.
  static Attributes Read(const NodeText& text, const ort::Api* api, const ort::KernelInfo* info);
  /// The integers alone, while shapes are inferred. \throws Error likewise
  static std::vector<TVMFFIAny> ReadInts(const NodeText& text, const ort::Api* api,
                                         const ort::ShapeInferContext* context);

  /// Of plans: n0…, f0…, s0….
  std::vector<tvm::ffi::Any> values;
  std::vector<TVMFFIAny> ints;  ///< those that programs get: no bools
  graphffi::Counts counts;      ///< without tensors
  std::string key;              ///< equal for equal values alone
};

}  // namespace graphffi_onnxruntime

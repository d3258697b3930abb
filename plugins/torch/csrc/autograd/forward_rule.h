// SPDX-License-Identifier: Apache-2.0
// Forward mode: tangents of an op's results by the op's rule.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <vector>

#include "errors.h"

namespace graphffi_torch {

/// A call whose operands have tangents.
struct ForwardCall {
  std::vector<c10::IValue> arguments;  ///< in schema order; tensors without their tangents
  /// For each argument: a tensor or a list of tensors, undefined where there is no tangent; None
  /// for attributes.
  std::vector<c10::IValue> tangents;
  std::vector<at::Tensor> results;
};

/// An op's rule. Called on any thread, without the GIL; lives until the process ends.
class ForwardRule {
 public:
  virtual ~ForwardRule() = default;

  /// One tangent per result, undefined for none. Operations on tensors are recorded if the caller
  /// wants gradients of tangents.
  virtual torch::autograd::variable_list Apply(const ForwardCall& call) const = 0;
};

/// Gives an op of this process its rule, for calls from now on; NULL takes it away. Thread-safe.
GRAPHFFI_TORCH_API void SetForwardRule(const std::string& op,
                                       std::unique_ptr<ForwardRule> opt_rule);

/// The rule of an op, or NULL. Borrowed for the life of the process.
const ForwardRule* FindForwardRule(const std::string& op);

/// The call before it is made: arguments and their tangents.
ForwardCall SplitTangents(c10::ArrayRef<c10::IValue> arguments);

/// Gives the results their tangents.
void ApplyForwardRule(const ForwardRule& rule, ForwardCall* call);

}  // namespace graphffi_torch

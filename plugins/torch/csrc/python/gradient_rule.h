// SPDX-License-Identifier: Apache-2.0
// Gradient rules that are Python functions.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "autograd/forward_rule.h"
#include "autograd/vjp_node.h"

namespace graphffi_torch {

/// A parameter or a result of an op, as its rule sees it.
struct RuleValue {
  std::string name;
  bool is_operand;  ///< otherwise an attribute, or a result
  bool is_saved;    ///< a tensor that the rule reads
};

/// A rule behind two functions, which are kept for good, because operators outlive the interpreter:
/// `run(values, cotangents)` calls the user's rule with a dict of what it sees and a tuple;
/// `check(specs, returned) -> [torch.Tensor | None, …]` looks closer at gradients that are not
/// tensors of the very shape and data type of the operands.
std::unique_ptr<GradientRule> MakePythonGradientRule(const std::string& op,
                                                     const std::vector<RuleValue>& parameters,
                                                     const std::vector<RuleValue>& results,
                                                     pybind11::object run, pybind11::object check);

/// A rule behind `run(arguments, tangents, results) -> [torch.Tensor | None, …]`, one per result,
/// which is kept for good. It gets a list for each.
std::unique_ptr<ForwardRule> MakePythonForwardRule(pybind11::object run);

}  // namespace graphffi_torch

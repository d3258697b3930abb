// SPDX-License-Identifier: Apache-2.0
// Gradients of ops that have a rule: the rule, and the autograd node that applies it.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <string>
#include <vector>

#include "errors.h"

namespace graphffi_torch {

/// Shape and data type of an operand, against which its gradient is checked.
struct TensorDescription {
  std::vector<c10::SymInt> shape;
  at::ScalarType dtype;
};

/// An operand or attribute of a call that a rule goes back through.
struct BackwardArgument {
  c10::IValue attribute;  ///< None for an operand
  bool is_list;           ///< of tensors
  /// One per tensor; empty for attributes.
  std::vector<TensorDescription> tensors;
};

struct BackwardCall {
  c10::ArrayRef<BackwardArgument> arguments;  ///< in schema order; borrowed
  /// For each argument: the attribute; the saved tensor or list of tensors; None for what is not
  /// saved, or not given.
  std::vector<c10::IValue> values;
  std::vector<at::Tensor> results;            ///< undefined: not saved
  torch::autograd::variable_list cotangents;  ///< undefined: not differentiable
};

/// An op's gradient rule. Called on any thread, without the GIL; lives until the process ends.
class GradientRule {
 public:
  GradientRule(std::string op, std::vector<bool> saved_arguments, std::vector<bool> saved_results)
      : op_(std::move(op)),
        saved_arguments_(std::move(saved_arguments)),
        saved_results_(std::move(saved_results)) {}
  virtual ~GradientRule() = default;

  /// One gradient per tensor of the operands, undefined for none; operations on tensors are
  /// recorded if the caller wants gradients of gradients.
  virtual torch::autograd::variable_list Apply(const BackwardCall& call) const = 0;

  const std::string& op() const { return op_; }
  bool saves_argument(size_t i) const { return saved_arguments_[i]; }
  bool saves_result(size_t i) const { return saved_results_[i]; }

 private:
  std::string op_;
  std::vector<bool> saved_arguments_, saved_results_;
};

/// Gives an op of this process its rule, for calls from now on; NULL takes it away. Takes
/// `opt_rule` and keeps it. Thread-safe.
GRAPHFFI_TORCH_API void SetGradientRule(const std::string& op,
                                        std::unique_ptr<GradientRule> opt_rule);

/// The rule of an op, or NULL. Borrowed for the life of the process.
GRAPHFFI_TORCH_API const GradientRule* FindGradientRule(const std::string& op);

/// A call as a node keeps it, without the saved tensors.
struct DifferentiatedCall {
  struct Result {
    bool is_differentiable;
    std::vector<c10::SymInt> shape;
    at::TensorOptions options;
  };

  const GradientRule* rule;
  std::vector<BackwardArgument> arguments;  ///< with the values of attributes
  std::vector<Result> results;

  size_t CountTensors() const;
  /// Applies the rule; without cotangents, there are no gradients. `saved`: tensors of arguments,
  /// then results, as far as they are saved.
  torch::autograd::variable_list GoBack(torch::autograd::variable_list cotangents,
                                        const torch::autograd::variable_list& saved) const;
};

/// Applies a rule when autograd goes back through a call.
class GRAPHFFI_TORCH_API VjpNode : public torch::autograd::Node {
 public:
  /// Saves what the rule wants of the arguments; the edges are those of all their tensors.
  VjpNode(const GradientRule* rule, c10::ArrayRef<c10::IValue> arguments);

  /// Makes this the history of the results and saves what the rule wants of them.
  void RecordResults(c10::ArrayRef<at::Tensor> results);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& cotangents) override;
  void release_variables() override;
  /// Compiled autograd traces the rule, anew for other attributes and shapes.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  torch::autograd::variable_list apply_with_saved(
      const torch::autograd::variable_list& cotangents,
      torch::dynamo::autograd::SwapSavedVariables& saved) override;
  std::string name() const override { return call_.rule->op() + "Backward"; }

 private:
  torch::autograd::variable_list Unpack();

  DifferentiatedCall call_;
  std::vector<torch::autograd::SavedVariable> arguments_;
  std::vector<torch::autograd::SavedVariable> results_;
  std::vector<bool> is_output_;  // by saved result
};

}  // namespace graphffi_torch

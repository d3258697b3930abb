// SPDX-License-Identifier: Apache-2.0
// An op that is ready to be called, and the values of one call.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banks.h"
#include "call/plan.h"
#include "errors.h"
#include "kernel_call.h"
#include "op_forms.h"
#include "shapes/shape_rule.h"

namespace graphffi_torch {

/// Targets of kernels that factories made after the op was defined. Thread-safe; targets stay for
/// good, and reading takes no lock.
class MadeTargets {
 public:
  /// Null for one that was not added yet.
  const CallTarget* Find(size_t index) const {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr || index >= table->size()) return nullptr;
    return (*table)[index].load(std::memory_order_acquire);
  }
  /// The one that was added before, if there is any.
  const CallTarget& Add(size_t index, std::unique_ptr<const CallTarget> target);

 private:
  using Table = std::vector<std::atomic<const CallTarget*>>;

  std::atomic<const Table*> table_{nullptr};
  std::mutex mutex_;                            // of those who add
  std::vector<std::unique_ptr<Table>> tables_;  // the last is read; others may be still
  std::vector<std::unique_ptr<const CallTarget>> targets_;
};

/// An op, ready to be called. Immutable, but for what factories make; used on any thread.
class GRAPHFFI_TORCH_API OpCall {
 public:
  enum class Role { kInput, kOutput, kAttribute };
  struct Parameter {
    Role role;
    bool is_list, is_optional;
    graphffi::Plan::Conversion conversion;
  };

  /// \throws graphffi::Error(ValueError) for a plan that does not parse.
  explicit OpCall(const OpDescription& description);

  const std::string& subject() const { return schema_.name(); }
  bool may_run_again() const { return may_run_again_; }
  size_t num_results() const { return num_results_; }
  /// The schema's parameters, in its order, without the digest.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool writes_operands() const {
    return targets_.front()->signature.names().outputs.size() > num_results_;
  }

 private:
  friend class OpFrame;

  void LayOut();
  static Parameter ParameterOf(const c10::Argument& argument, const std::string& name,
                               const OpDescription& description);
  /// The target of a kernel, by the number that the rule gives.
  const CallTarget& TargetOf(int32_t kernel) const {
    const auto number = static_cast<size_t>(kernel);
    return number < targets_.size() ? *targets_[number] : MadeTargetOf(number);
  }
  const CallTarget& MadeTargetOf(size_t number) const;

  c10::FunctionSchema schema_;
  /// One for each kernel, with one layout for all: values are placed before a kernel is chosen.
  std::vector<std::unique_ptr<CallTarget>> targets_;
  mutable MadeTargets made_;
  std::shared_ptr<graphffi::ShapeRule> opt_rule_;
  size_t num_results_;
  bool may_run_again_;
  std::vector<Parameter> parameters_;
};

/// The values of one call: first the arguments are added, in the order of the schema, then it runs
/// once. Tensors are borrowed until then. Lives on the stack.
class GRAPHFFI_TORCH_API OpFrame {
 public:
  explicit OpFrame(const OpCall& call) : op_(call), call_(*call.targets_.front()) {
    for (size_t i = 0; i < call.num_results_; ++i) call_.outputs().AddVacant();
  }

  /// Where a tensor or a list of tensors goes.
  TensorBank& TensorsOf(OpCall::Role role) {
    return role == OpCall::Role::kInput ? call_.inputs() : call_.outputs();
  }
  AttributeBank& attributes() { return call_.attributes(); }

  /// All arguments as the dispatcher has them, without the digest.
  void Add(c10::ArrayRef<c10::IValue> arguments);

  /// Checks the arguments, allocates the results and calls the kernel. \throws graphffi::Error,
  /// what the shape rule throws
  void Run() {
    if (op_.opt_rule_ != nullptr) return RunAllocated();
    call_.Run(0);
  }
  /// Run with tensors to fill, whose shapes, dtypes and devices are checked.
  void RunInto(c10::ArrayRef<c10::IValue> outputs);

  /// The results that Run allocated.
  c10::SmallVectorImpl<at::Tensor>& results() {
    if (!opt_results_.has_value()) opt_results_.emplace();
    return *opt_results_;
  }

 private:
  void RunAllocated();
  /// \throws graphffi::Error(TypeError) if torch has no such data type, or gives it to no kernel.
  at::ScalarType TypeOf(const DLTensor& result, size_t index);
  /// Has the call run the kernel that the rule chooses, and gives the workspace that it demands.
  TVMFFIAny Infer(graphffi::ResultShapes* shapes);
  void CheckOutputs(const graphffi::ResultShapes& shapes);
  /// \throws graphffi::Error(TypeError) if the operand that comes next got no tensor.
  void CheckDefined(const c10::IValue& tensor, OpCall::Role role);

  const OpCall& op_;
  KernelCall call_;  // its outputs begin with the results
  std::optional<c10::SmallVector<at::Tensor, 4>> opt_results_;
};

}  // namespace graphffi_torch

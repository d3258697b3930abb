// SPDX-License-Identifier: Apache-2.0
#include "vjp_node.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "autograd_node.h"
#include "compiled_autograd.h"
#include "rule_table.h"

namespace graphffi_torch {
namespace {

namespace autograd = torch::autograd;
namespace compiled = torch::dynamo::autograd;

bool HoldsTensors(const c10::IValue& value) {
  return value.isTensor() || value.isTensorList() || value.isOptionalTensorList();
}

/// Gives gradients memory of their own, such as `g.reshape(…)` beside `g`: an operand's `.grad`
/// becomes a tensor that nobody else has, and is added to in place, whoever has its memory.
void CopyShared(autograd::variable_list* gradients) {
  for (auto it = gradients->begin(); it != gradients->end(); ++it) {
    if (!it->defined()) continue;
    const bool is_shared = std::any_of(gradients->begin(), it, [&](const at::Tensor& other) {
      return other.defined() && !other.is_same(*it) && MayShareMemory(*it, other);
    });
    if (is_shared) *it = it->clone();
  }
}

}  // namespace

void SetGradientRule(const std::string& op, std::unique_ptr<GradientRule> opt_rule) {
  RuleTable<GradientRule>::Global().Set(op, std::move(opt_rule));
}

const GradientRule* FindGradientRule(const std::string& op) {
  return RuleTable<GradientRule>::Global().Find(op);
}

size_t DifferentiatedCall::CountTensors() const {
  size_t count = 0;
  for (const BackwardArgument& argument : arguments) count += argument.tensors.size();
  return count;
}

autograd::variable_list DifferentiatedCall::GoBack(autograd::variable_list cotangents,
                                                   const autograd::variable_list& saved) const {
  auto given = std::find_if(cotangents.begin(), cotangents.end(),
                            [](const at::Tensor& tensor) { return tensor.defined(); });
  if (given == cotangents.end()) return autograd::variable_list(CountTensors());
  const at::Tensor like = *given;  // of the same kind, such as DTensor
  BackwardCall call{arguments, {}, {}, std::move(cotangents)};
  c10::ArrayRef<at::Tensor> rest = saved;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const BackwardArgument& argument = arguments[i];
    const size_t count = argument.tensors.size();
    if (!rule->saves_argument(i) || (count == 0 && !argument.is_list)) {
      call.values.push_back(argument.attribute);
      continue;
    }
    call.values.emplace_back(
        argument.is_list ? c10::IValue(c10::List<at::Tensor>(rest.slice(0, count))) : rest[0]);
    rest = rest.slice(count);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    call.results.push_back(rule->saves_result(i) ? rest[0] : at::Tensor());
    if (rule->saves_result(i)) rest = rest.slice(1);
    at::Tensor& cotangent = call.cotangents[i];
    if (!results[i].is_differentiable) {
      cotangent = at::Tensor();
    } else if (!cotangent.defined()) {
      cotangent = like.new_zeros_symint(results[i].shape, results[i].options);
    }
  }
  autograd::variable_list gradients = rule->Apply(call);
  if (!at::GradMode::is_enabled()) CopyShared(&gradients);
  return gradients;
}

VjpNode::VjpNode(const GradientRule* rule, c10::ArrayRef<c10::IValue> arguments)
    : call_{rule, {}, {}} {
  autograd::edge_list edges;
  call_.arguments.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = arguments[i];
    BackwardArgument& argument = call_.arguments.emplace_back(
        BackwardArgument{HoldsTensors(value) ? c10::IValue() : value, value.isTensorList(), {}});
    ForEachTensor(value, [&](const at::Tensor& tensor, int) {
      edges.push_back(autograd::impl::gradient_edge(tensor));
      argument.tensors.push_back({tensor.sym_sizes().vec(), tensor.scalar_type()});
      if (rule->saves_argument(i)) arguments_.emplace_back(tensor, /*is_output=*/false);
    });
  }
  set_next_edges(std::move(edges));
}

void VjpNode::RecordResults(c10::ArrayRef<at::Tensor> results) {
  NodeRef self = getptr();
  for (const at::Tensor& tensor : results) {
    const bool is_differentiable = autograd::isDifferentiableType(tensor.scalar_type());
    call_.results.push_back({is_differentiable, tensor.sym_sizes().vec(), tensor.options()});
    if (is_differentiable) {
      autograd::set_history(tensor, self);
    } else {
      add_input_metadata(Node::undefined_input());
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!call_.rule->saves_result(i)) continue;
    is_output_.push_back(call_.results[i].is_differentiable);
    results_.emplace_back(results[i], is_output_.back());
  }
}

autograd::variable_list VjpNode::Unpack() {
  std::lock_guard<std::mutex> lock(mutex_);
  autograd::variable_list saved;
  for (const autograd::SavedVariable& tensor : arguments_) saved.push_back(tensor.unpack());
  for (const autograd::SavedVariable& tensor : results_) saved.push_back(tensor.unpack(getptr()));
  return saved;
}

autograd::variable_list VjpNode::apply(autograd::variable_list&& cotangents) {
  return call_.GoBack(std::move(cotangents), Unpack());
}

void VjpNode::compiled_args(compiled::CompiledNodeArgs& args) const {
  args.collect(call_.rule->op());
  args.collect(reinterpret_cast<uint64_t>(call_.rule));
  for (const BackwardArgument& argument : call_.arguments) {
    CollectAttribute(argument.attribute, &args);
    args.collect(static_cast<uint64_t>(argument.tensors.size()));
    for (const TensorDescription& tensor : argument.tensors) {
      CollectShape(tensor.shape, &args);
      args.collect(tensor.dtype);
    }
  }
  for (const DifferentiatedCall::Result& result : call_.results) CollectShape(result.shape, &args);
  for (const autograd::SavedVariable& tensor : arguments_) args.collect(tensor, false);
  for (size_t i = 0; i < results_.size(); ++i) args.collect(results_[i], is_output_[i]);
}

autograd::variable_list VjpNode::apply_with_saved(const autograd::variable_list& cotangents,
                                                  compiled::SwapSavedVariables& saved) {
  saved.before(arguments_);
  saved.before(results_);
  auto restore = c10::make_scope_exit([&] {
    saved.after(arguments_);
    saved.after(results_);
  });
  auto go_back = [call = call_](autograd::variable_list given,
                                const autograd::variable_list& kept) {
    return call.GoBack(std::move(given), kept);
  };
  return CallCompiled(*this, cotangents, Unpack(), std::move(go_back), saved);
}

void VjpNode::release_variables() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto* list : {&arguments_, &results_}) {
    for (autograd::SavedVariable& tensor : *list) tensor.reset_data();
  }
}

}  // namespace graphffi_torch

// SPDX-License-Identifier: Apache-2.0
#include "vjp_node.h"

#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "autograd_node.h"

namespace graphffi_torch {
namespace {

namespace autograd = torch::autograd;

struct Rules {
  std::shared_mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<const GradientRule>> by_op;
  static Rules& Global() {
    static auto* instance = new Rules();
    return *instance;
  }
};

bool HoldsTensors(const c10::IValue& value) {
  return value.isTensor() || value.isTensorList() || value.isOptionalTensorList();
}

}  // namespace

void SetGradientRule(const std::string& op, std::unique_ptr<GradientRule> rule) {
  Rules& rules = Rules::Global();
  std::unique_lock<std::shared_mutex> lock(rules.mutex);
  auto [place, is_new] = rules.by_op.try_emplace(op, std::move(rule));
  (void)place, (void)is_new;  // a rule is never replaced: nodes hold it
}

const GradientRule* FindGradientRule(const std::string& op) {
  Rules& rules = Rules::Global();
  std::shared_lock<std::shared_mutex> lock(rules.mutex);
  auto found = rules.by_op.find(op);
  return found == rules.by_op.end() ? nullptr : found->second.get();
}

VjpNode::VjpNode(std::string op, const GradientRule* rule, c10::ArrayRef<c10::IValue> arguments)
    : op_(std::move(op)), rule_(rule) {
  autograd::edge_list edges;
  arguments_.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    SavedArgument& saved = arguments_.emplace_back();
    saved.is_list = arguments[i].isTensorList();
    saved.is_saved = rule->saves_argument(i);
    if (!HoldsTensors(arguments[i])) saved.attribute = arguments[i];
    ForEachTensor(arguments[i], [&](const at::Tensor& tensor, int) {
      edges.push_back(autograd::impl::gradient_edge(tensor));
      saved.descriptions.push_back({tensor.sym_sizes().vec(), tensor.scalar_type()});
      if (saved.is_saved) saved.tensors.emplace_back(tensor, /*is_output=*/false);
    });
  }
  set_next_edges(std::move(edges));
}

void VjpNode::RecordResults(c10::ArrayRef<c10::IValue> results) {
  NodeRef self = getptr();
  for (const c10::IValue& result : results) {
    const at::Tensor& tensor = result.toTensor();
    is_differentiable_.push_back(autograd::isDifferentiableType(tensor.scalar_type()));
    if (is_differentiable_.back()) {
      autograd::set_history(tensor, self);
    } else {
      add_input_metadata(Node::undefined_input());
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!rule_->saves_result(i)) {
      results_.emplace_back();
    } else {
      results_.emplace_back(results[i].toTensor(), /*is_output=*/is_differentiable_[i]);
    }
  }
}

BackwardCall VjpNode::Unpack(autograd::variable_list&& cotangents) {
  std::lock_guard<std::mutex> lock(mutex_);
  BackwardCall call;
  for (const SavedArgument& saved : arguments_) {
    BackwardArgument& argument = call.arguments.emplace_back(
        BackwardArgument{saved.attribute, saved.is_list, saved.descriptions});
    if (!saved.is_saved || (saved.tensors.empty() && !saved.is_list)) continue;
    if (saved.is_list) {
      c10::List<at::Tensor> list;
      for (const autograd::SavedVariable& tensor : saved.tensors) list.push_back(tensor.unpack());
      argument.value = std::move(list);
    } else {
      argument.value = saved.tensors[0].unpack();
    }
  }
  for (const autograd::SavedVariable& result : results_) {
    call.results.push_back(result.unpack(getptr()));
  }
  call.cotangents = std::move(cotangents);
  FillCotangents(&call.cotangents);
  return call;
}

void VjpNode::FillCotangents(autograd::variable_list* cotangents) {
  auto given = std::find_if(cotangents->begin(), cotangents->end(),
                            [](const at::Tensor& tensor) { return tensor.defined(); });
  const at::Tensor like = *given;  // of the same kind, such as DTensor
  for (size_t i = 0; i < cotangents->size(); ++i) {
    at::Tensor& cotangent = (*cotangents)[i];
    if (!is_differentiable_[i]) {
      cotangent = at::Tensor();
    } else if (!cotangent.defined()) {
      const autograd::InputMetadata& result = input_metadata(i);
      cotangent = like.new_zeros_symint(result.shape_as_dim_vector(), result.options());
    }
  }
}

autograd::variable_list VjpNode::apply(autograd::variable_list&& cotangents) {
  bool is_zero = std::none_of(cotangents.begin(), cotangents.end(),
                              [](const at::Tensor& tensor) { return tensor.defined(); });
  if (is_zero) return autograd::variable_list(num_outputs());
  return rule_->Apply(Unpack(std::move(cotangents)));
}

void VjpNode::compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const {
  ThrowTorchError(RefusedCompiledAutograd(op_));
}

void VjpNode::release_variables() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (SavedArgument& saved : arguments_) {
    for (autograd::SavedVariable& tensor : saved.tensors) tensor.reset_data();
  }
  for (autograd::SavedVariable& result : results_) result.reset_data();
}

}  // namespace graphffi_torch

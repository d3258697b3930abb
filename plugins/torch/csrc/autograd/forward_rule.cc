// SPDX-License-Identifier: Apache-2.0
#include "forward_rule.h"

#include <algorithm>
#include <utility>

#include "autograd_node.h"
#include "rule_table.h"

namespace graphffi_torch {
namespace {

at::Tensor PrimalOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor._fw_grad(/*level=*/0).defined()) return tensor;
  return tensor._fw_primal(/*level=*/0);
}

at::Tensor TangentOf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor._fw_grad(/*level=*/0) : at::Tensor();
}

template <typename Function>
c10::IValue Mapped(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) return function(value.toTensor());
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(function(tensor));
  return list;
}

}  // namespace

void SetForwardRule(const std::string& op, std::unique_ptr<ForwardRule> opt_rule) {
  RuleTable<ForwardRule>::Global().Set(op, std::move(opt_rule));
}

const ForwardRule* FindForwardRule(const std::string& op) {
  return RuleTable<ForwardRule>::Global().Find(op);
}

ForwardCall SplitTangents(c10::ArrayRef<c10::IValue> arguments) {
  ForwardCall call;
  for (const c10::IValue& value : arguments) {
    const bool has_tensors = value.isTensor() || value.isTensorList();
    call.arguments.push_back(has_tensors ? Mapped(value, PrimalOf) : value);
    call.tangents.push_back(has_tensors ? Mapped(value, TangentOf) : c10::IValue());
  }
  return call;
}

void ApplyForwardRule(const ForwardRule& rule, ForwardCall* call) {
  const torch::autograd::variable_list tangents = rule.Apply(*call);
  torch::autograd::variable_list others;
  for (const c10::IValue& value : call->tangents) {
    ForEachTensor(value, [&](const at::Tensor& tangent, int) { others.push_back(tangent); });
  }
  for (size_t i = 0; i < call->results.size(); ++i) {
    at::Tensor tangent = tangents[i];
    if (!tangent.defined()) continue;
    // An update of the result updates its tangent, but no other one.
    const auto shares = [&](const at::Tensor& other) { return MayShareMemory(tangent, other); };
    if (std::any_of(others.begin(), others.end(), shares)) tangent = tangent.clone();
    others.push_back(tangent);
    call->results[i]._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
  }
}

}  // namespace graphffi_torch

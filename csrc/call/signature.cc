// SPDX-License-Identifier: Apache-2.0
#include "call/signature.h"

#include <algorithm>
#include <utility>

namespace graphffi {

namespace {

void Number(char prefix, int32_t count, std::vector<std::string>* names) {
  for (int32_t i = 0; i < count; ++i) names->push_back(prefix + std::to_string(i));
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = std::min(text.find(", ", begin), text.size());
    names.push_back(text.substr(begin, comma - begin));
    begin = comma + 2;
  }
  return names;
}

}  // namespace

std::shared_ptr<const TensorNames> TensorNames::Parse(std::string subject,
                                                      const std::string& tensors) {
  const size_t arrow = std::min(tensors.find(" -> "), tensors.size());
  const size_t outputs = std::min(arrow + 4, tensors.size());
  return std::make_shared<const TensorNames>(TensorNames{
      std::move(subject), Split(tensors.substr(0, arrow)), Split(tensors.substr(outputs))});
}

std::string TensorNames::NameOf(Plan::Op op, size_t slot) const {
  const std::vector<std::string>& known = op == Plan::Op::kInput ? inputs : outputs;
  if (slot < known.size()) return known[slot];
  return (op == Plan::Op::kInput ? 'i' : 'o') + std::to_string(slot);
}

Signature::Signature(Plan plan, std::shared_ptr<const TensorNames> names, int32_t num_inputs,
                     int32_t num_outputs, int32_t num_attributes)
    : plan_(std::move(plan)),
      layout_(Layout::Of(plan_, num_inputs, num_outputs, num_attributes)),
      names_(std::move(names)),
      num_inputs_(num_inputs),
      num_outputs_(num_outputs),
      num_attributes_(num_attributes) {}

Signature Signature::Parse(std::string_view plan, std::shared_ptr<const TensorNames> names,
                           const std::vector<std::string>& attributes) {
  Plan parsed = Plan::Parse(plan, {names->inputs, names->outputs, attributes}, names->subject);
  const auto num_inputs = static_cast<int32_t>(names->inputs.size());
  const auto num_outputs = static_cast<int32_t>(names->outputs.size());
  return {std::move(parsed), std::move(names), num_inputs, num_outputs,
          static_cast<int32_t>(attributes.size())};
}

Signature Signature::Parse(std::string_view plan, std::shared_ptr<const TensorNames> names,
                           const Counts& counts) {
  std::vector<std::string> inputs, outputs, attributes;
  Number('i', counts.inputs, &inputs);
  Number('o', counts.outputs, &outputs);
  Number('n', counts.ints, &attributes);
  Number('f', counts.floats, &attributes);
  Number('s', counts.strs, &attributes);
  Plan parsed = Plan::Parse(plan, {inputs, outputs, attributes}, names->subject);
  return {std::move(parsed), std::move(names), counts.inputs, counts.outputs,
          static_cast<int32_t>(attributes.size())};
}

Signature Signature::Fold(const KnownAttributes& attributes) const try {
  return {plan_.Fold(attributes.values, attributes.open), names_, num_inputs_, num_outputs_,
          static_cast<int32_t>(attributes.open.size())};
} catch (const PlanError& error) {
  throw error.Of(subject());
}

Signature Signature::Apart() const {
  Signature apart = *this;
  apart.layout_ = Layout::Apart();
  return apart;
}

Layout Signature::ExactLayout(int32_t num_inputs, int32_t num_outputs) const {
  Layout layout = Layout::Of(plan_, num_inputs, num_outputs, num_attributes_);
  if (layout.is_in_order()) return layout;
  return {{0, num_inputs},
          {num_inputs, num_outputs},
          {num_inputs + num_outputs, num_attributes_},
          0,
          {}};
}

}  // namespace graphffi

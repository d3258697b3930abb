// SPDX-License-Identifier: Apache-2.0
#include "call_site.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "call/error.h"
#include "operators/lazy_bits.h"

namespace graphffi_torch {
namespace {

/// Where the parts of a digest with names end.
struct DigestEnds {
  size_t subject, names;
};

std::optional<DigestEnds> FindEnds(const std::string& text) {
  const std::string digest = text.substr(0, text.find('\t'));
  const size_t open = digest.find('('), arrow = digest.find(" -> "), close = digest.rfind(") ");
  if (open == std::string::npos || arrow == std::string::npos || close == std::string::npos ||
      open > arrow || arrow > close) {
    return std::nullopt;
  }
  return DigestEnds{open, close};
}

constexpr auto IsLazy = [](const at::Tensor* opt_tensor) {
  return opt_tensor != nullptr && HasLazyBits(*opt_tensor);
};

}  // namespace

CallNames CallNames::Parse(const std::string& digest, const std::string& func) {
  CallNames names;
  names.subject = ParseSubject(digest, func);
  const std::optional<DigestEnds> ends = FindEnds(digest);
  if (!ends.has_value()) return names;
  const size_t begin = ends->subject + 1;
  const std::string tensors = digest.substr(begin, ends->names - begin);
  if (tensors.find(':') != std::string::npos) {
    throw graphffi::Error("ValueError", names.subject +
                                            ": digest: expected names of tensors, got a program "
                                            "made by graphffi 0.1; export again");
  }
  static_cast<graphffi::TensorNames&>(names) =
      *graphffi::TensorNames::Parse(names.subject, tensors);
  names.returns_none = digest.compare(ends->names, 10, ") -> None ") == 0;
  const size_t line = digest.find('\t');
  if (line != std::string::npos) names.conditions = digest.substr(line);
  std::replace(names.conditions.begin(), names.conditions.end(), '\t', '\n');
  return names;
}

void CallNames::Keep(size_t num_inputs, size_t num_outputs) {
  if (inputs.size() != num_inputs) inputs.clear();
  if (outputs.size() != num_outputs) outputs.clear();
}

std::string CallNames::ParseSubject(const std::string& digest, const std::string& func) {
  const std::optional<DigestEnds> ends = FindEnds(digest);
  return ends.has_value() ? digest.substr(0, ends->subject) : func;
}

CallSite::CallSite(const std::string& func, const std::string& plan, const graphffi::Counts& counts,
                   const std::string& digest, const graphffi::KnownAttributes* opt_attributes,
                   std::string opt_origin)
    : target_{graphffi::KernelSlot(func, std::move(opt_origin)), {}} {
  CallNames names = CallNames::Parse(digest, func);
  names.Keep(static_cast<size_t>(counts.inputs), static_cast<size_t>(counts.outputs));
  target_.returns_none = names.returns_none;
  if (!names.conditions.empty()) {
    conditions_ = graphffi::Conditions::Parse(names.conditions);
  }
  if (plan.empty() && counts.has_attributes()) {
    throw graphffi::Error("ValueError", names.subject +
                                            ": plan: expected one that names the numbers and "
                                            "texts, got none; without one a kernel gets the "
                                            "inputs, then the outputs");
  }
  target_.signature = graphffi::Signature::Parse(
      plan, std::make_shared<const graphffi::TensorNames>(std::move(names)), counts);
  if (opt_attributes == nullptr) return;
  target_.signature = target_.signature.Fold(*opt_attributes);
}

void CallSite::Run(const at::Tensor* const* tensors, const TVMFFIAny* attributes,
                   size_t num_fresh) const {
  const int32_t num_inputs = signature().num_inputs(), count = num_tensors();
  KernelCall call(target_);
  const auto add = [&](TensorBank* bank, int32_t i) {
    tensors[i] == nullptr ? bank->AddVacant() : bank->Add(*tensors[i]);
  };
  for (int32_t i = 0; i < num_inputs; ++i) add(&call.inputs(), i);
  for (int32_t i = num_inputs; i < count; ++i) add(&call.outputs(), i);
  for (int32_t i = 0; i < num_attributes(); ++i) call.attributes().Add(attributes[i]);
  if (conditions_.has_value()) CheckConditions(&call);
  call.Run(num_fresh);
}

void CallSite::CheckConditions(KernelCall* call) const {
  c10::SmallVector<const DLTensor*, 16> tensors;
  for (const graphffi::Bank& bank : {call->inputs().bank(), call->outputs().bank()}) {
    for (int32_t i = 0; i < bank.size; ++i) tensors.push_back(graphffi::TensorOf(bank.values[i]));
  }
  const auto broken =
      conditions_->FindBroken(tensors.data(), static_cast<int32_t>(tensors.size()), nullptr);
  if (broken.has_value()) {
    throw graphffi::Error(broken->kind, signature().subject() + ": " + broken->message);
  }
}

void CallSite::RunGenerated(const at::Tensor* const* tensors, const TVMFFIAny* attributes,
                            size_t num_fresh) const {
  const auto run = [&] {
    const bool is_lazy = std::any_of(tensors, tensors + num_tensors(), IsLazy);
    is_lazy ? RunResolved(tensors, attributes, num_fresh) : Run(tensors, attributes, num_fresh);
  };
  auto profiled = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!profiled.has_value()) return run();
  at::RecordFunction event(std::move(*profiled));  // large: clearing an optional one costs 8 ns
  event.before(signature().subject());
  run();
}

/// A cotangent may be conjugated or negated lazily: nobody knows while code is generated.
void CallSite::RunResolved(const at::Tensor* const* tensors, const TVMFFIAny* attributes,
                           size_t num_fresh) const {
  at::AutoDispatchBelowADInplaceOrView guard;
  const int32_t count = num_tensors();
  std::vector<at::Tensor> resolved;
  std::vector<const at::Tensor*> passed(tensors, tensors + count);
  resolved.reserve(passed.size());
  for (const at::Tensor*& tensor : passed) {
    if (!IsLazy(tensor)) continue;
    resolved.push_back(tensor->resolve_conj().resolve_neg());
    tensor = &resolved.back();
  }
  Run(passed.data(), attributes, num_fresh);
  for (int32_t i = signature().num_inputs(); i < count; ++i) {
    if (IsLazy(tensors[i])) tensors[i]->copy_(*passed[static_cast<size_t>(i)]);
  }
}

}  // namespace graphffi_torch

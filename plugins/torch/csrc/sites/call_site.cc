// SPDX-License-Identifier: Apache-2.0
#include "call_site.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <utility>

#include "call/convert.h"
#include "call/error.h"
#include "call/value.h"
#include "operators/lazy_bits.h"

namespace graphffi_torch {
namespace {

/// \throws graphffi::Error(ValueError) for descriptions of tensors behind names
std::vector<std::string> SplitNames(const std::string& subject, const std::string& text) {
  if (text.find(':') != std::string::npos) {
    throw graphffi::Error("ValueError", subject +
                                            ": digest: expected names of tensors, got a program "
                                            "made by graphffi 0.1; export again");
  }
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(", ", begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 2;
  }
  return names;
}

/// Where the parts of a digest with names end.
struct DigestEnds {
  size_t subject, inputs, outputs;
};

std::optional<DigestEnds> FindEnds(const std::string& text) {
  const std::string digest = text.substr(0, text.find('\n'));
  const size_t open = digest.find('('), arrow = digest.find(" -> "), close = digest.rfind(") ");
  if (open == std::string::npos || arrow == std::string::npos || close == std::string::npos ||
      open > arrow || arrow > close) {
    return std::nullopt;
  }
  return DigestEnds{open, arrow, close};
}

}  // namespace

CallNames CallNames::Parse(const std::string& digest, const std::string& func) {
  CallNames names;
  names.subject = ParseSubject(digest, func);
  const std::optional<DigestEnds> ends = FindEnds(digest);
  if (!ends.has_value()) return names;
  const size_t inputs = ends->subject + 1, outputs = ends->inputs + 4;
  names.inputs = SplitNames(names.subject, digest.substr(inputs, ends->inputs - inputs));
  names.outputs = SplitNames(names.subject, digest.substr(outputs, ends->outputs - outputs));
  const size_t line = digest.find('\n');
  if (line != std::string::npos) names.conditions = digest.substr(line);
  return names;
}

std::string CallNames::ParseSubject(const std::string& digest, const std::string& func) {
  const std::optional<DigestEnds> ends = FindEnds(digest);
  return ends.has_value() ? digest.substr(0, ends->subject) : func;
}

CallSite::CallSite(const std::string& func, const std::string& plan, const CallCounts& counts,
                   const std::string& digest, std::string opt_origin)
    : counts_(counts),
      target_{graphffi::KernelSlot(func, std::move(opt_origin)), {}, {}, {}, {}, {}} {
  CallNames names = CallNames::Parse(digest, func);
  const bool names_inputs = names.inputs.size() == static_cast<size_t>(counts.inputs);
  const bool names_outputs = names.outputs.size() == static_cast<size_t>(counts.outputs);
  if (!names_inputs) names.inputs.clear();
  if (!names_outputs) names.outputs.clear();
  if (!names.conditions.empty()) {
    conditions_ = graphffi::Conditions::Parse(names.conditions);
  }
  target_.input_names = {names.subject, 'i', std::move(names.inputs)};
  target_.output_names = {names.subject, 'o', std::move(names.outputs)};
  if (plan.empty() && counts.ints + counts.floats + counts.strs > 0) {
    throw graphffi::Error("ValueError", names.subject +
                                            ": plan: expected one that names the numbers and "
                                            "texts, got none; without one a kernel gets the "
                                            "inputs, then the outputs");
  }
  target_.plan =
      graphffi::Plan::Parse(plan,
                            graphffi::PlanNames::Raw(counts.inputs, counts.outputs, counts.ints,
                                                     counts.floats, counts.strs),
                            names.subject);
  target_.layout = graphffi::Layout::Of(target_.plan, counts.inputs, counts.outputs,
                                        counts.ints + counts.floats + counts.strs);
  target_.subject = std::move(names.subject);
}

void CallSite::Run(KernelCall* call) const {
  if (conditions_.has_value()) CheckConditions(call);
  call->Run(static_cast<size_t>(counts_.fresh));
}

void CallSite::Bind(const std::vector<tvm::ffi::Any>& attributes,
                    const std::vector<int32_t>& open) {
  target_.plan = target_.plan.Fold(attributes, open);
  target_.layout = graphffi::Layout::Of(target_.plan, counts_.inputs, counts_.outputs,
                                        static_cast<int32_t>(open.size()));
}

void CallSite::CheckConditions(KernelCall* call) const {
  c10::SmallVector<const DLTensor*, 16> tensors;
  for (const graphffi::Bank& bank : {call->inputs().bank(), call->outputs().bank()}) {
    for (int32_t i = 0; i < bank.size; ++i) tensors.push_back(graphffi::TensorOf(bank.values[i]));
  }
  const auto broken =
      conditions_->FindBroken(tensors.data(), static_cast<int32_t>(tensors.size()), nullptr);
  if (broken.has_value()) throw graphffi::Error(broken->kind, subject() + ": " + broken->message);
}

CallCounts SiteArguments::Counts(int32_t num_fresh) const {
  return {num_inputs,
          num_outputs,
          static_cast<int32_t>(ints.size()),
          static_cast<int32_t>(floats.size()),
          static_cast<int32_t>(strs.size()),
          num_fresh};
}

BoundSite::BoundSite(const SiteArguments& arguments, int32_t num_fresh, std::string opt_origin)
    : site_(arguments.func, arguments.plan, arguments.Counts(num_fresh), arguments.digest,
            std::move(opt_origin)) {
  std::vector<int32_t> open;
  std::vector<tvm::ffi::Any> values;
  for (const std::optional<int64_t>& value : arguments.ints) {
    if (!value) open.push_back(static_cast<int32_t>(values.size()));
    values.emplace_back(value.value_or(0));
  }
  for (double value : arguments.floats) values.emplace_back(value);
  for (const std::string& text : arguments.strs) values.push_back(graphffi::MakeString(text));
  num_ints_ = static_cast<int32_t>(open.size());
  site_.Bind(values, open);
}

void BoundSite::Run(const at::Tensor* const* tensors, const int64_t* ints) const {
  // As the dispatcher does for operators.
  std::optional<at::StepCallbacks> profiled =
      at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!profiled) return RunUnprofiled(tensors, ints);
  at::RecordFunction event(std::move(*profiled));
  event.before(site_.subject());
  RunUnprofiled(tensors, ints);
}

void BoundSite::RunUnprofiled(const at::Tensor* const* tensors, const int64_t* ints) const {
  const auto is_lazy = [](const at::Tensor* tensor) { return HasLazyBits(*tensor); };
  const bool are_plain = std::none_of(tensors, tensors + num_tensors(), is_lazy);
  are_plain ? RunPlain(tensors, ints) : RunResolved(tensors, ints);
}

/// A cotangent may be conjugated or negated lazily: nobody knows while code is generated.
void BoundSite::RunResolved(const at::Tensor* const* tensors, const int64_t* ints) const {
  at::AutoDispatchBelowADInplaceOrView guard;
  std::vector<at::Tensor> resolved;
  std::vector<const at::Tensor*> passed;
  resolved.reserve(static_cast<size_t>(num_tensors()));
  for (int32_t i = 0; i < num_tensors(); ++i) {
    resolved.push_back(HasLazyBits(*tensors[i]) ? tensors[i]->resolve_conj().resolve_neg()
                                                : *tensors[i]);
    passed.push_back(&resolved.back());
  }
  RunPlain(passed.data(), ints);
  for (int32_t i = site_.counts().inputs; i < num_tensors(); ++i) {
    if (HasLazyBits(*tensors[i])) tensors[i]->copy_(*passed[static_cast<size_t>(i)]);
  }
}

void BoundSite::RunPlain(const at::Tensor* const* tensors, const int64_t* ints) const {
  const int32_t num_inputs = site_.counts().inputs, count = num_tensors();
  KernelCall call(site_.target());
  for (int32_t i = 0; i < num_inputs; ++i) call.inputs().Add(*tensors[i]);
  for (int32_t i = num_inputs; i < count; ++i) call.outputs().Add(*tensors[i]);
  for (int32_t i = 0; i < num_ints_; ++i) call.attributes().Add(graphffi::ToAny(ints[i]));
  site_.Run(&call);
}

}  // namespace graphffi_torch

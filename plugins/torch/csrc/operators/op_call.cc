// SPDX-License-Identifier: Apache-2.0
#include "op_call.h"

#include <ATen/DLConvertor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_cpu_dispatch.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <tvm/ffi/device.h>
#include <tvm/ffi/dtype.h>

#include <string_view>
#include <utility>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/value.h"

namespace graphffi_torch {
namespace {

/// For compilers' caches only; the last of the schema.
constexpr std::string_view kDigestArgument = "graphffi_digest";

at::Tensor Empty(const DLTensor& result, at::ScalarType type, bool is_profiled) {
  at::IntArrayRef shape(result.shape, static_cast<size_t>(result.ndim));
  at::TensorOptions options = at::TensorOptions().dtype(type);
  // The dispatcher would add nothing but a profiler's event.
  if (result.device.device_type == kDLCPU && !is_profiled) return at::cpu::empty(shape, options);
  auto index = static_cast<c10::DeviceIndex>(result.device.device_id);
  return at::empty(shape,
                   options.device(at::dlDeviceToTorchDevice(result.device.device_type, index)));
}

bool SameShape(const DLTensor& a, const DLTensor& b) {
  return at::IntArrayRef(a.shape, static_cast<size_t>(a.ndim)) ==
         at::IntArrayRef(b.shape, static_cast<size_t>(b.ndim));
}

}  // namespace

OpCall::OpCall(const OpDescription& description)
    : schema_(torch::jit::parseSchema(description.schema)),
      opt_rule_(description.opt_rule),
      num_results_(description.results.size()),
      may_run_again_(description.may_run_again) {
  const auto names = std::make_shared<graphffi::TensorNames>();
  names->subject = subject();
  names->outputs = description.results;
  std::vector<std::string> attributes;
  for (const c10::Argument& argument : schema_.arguments()) {
    if (argument.name() == kDigestArgument) continue;
    const std::string& name = description.parameters.at(parameters_.size());
    parameters_.push_back(ParameterOf(argument, name, description));
    const Role role = parameters_.back().role;
    (role == Role::kAttribute ? attributes
     : role == Role::kInput   ? names->inputs
                              : names->outputs)
        .push_back(name);
  }
  // An op without kernels has a rule that says so: no call gets further.
  std::vector<OpDescription::Kernel> kernels = description.kernels;
  if (kernels.empty()) kernels.push_back({"", ""});
  for (const OpDescription::Kernel& kernel : kernels) {
    targets_.emplace_back(
        new CallTarget{graphffi::KernelSlot(kernel.reference),
                       graphffi::Signature::Parse(kernel.plan, names, attributes)});
  }
  LayOut();
}

/// Lists take room that only a call knows.
void OpCall::LayOut() {
  bool is_apart = false;
  for (const Parameter& parameter : parameters_) is_apart |= parameter.is_list;
  for (const auto& target : targets_) {
    is_apart |= !target->signature.layout().has_ranges_of(targets_.front()->signature.layout());
  }
  if (!is_apart) return;
  for (const auto& target : targets_) target->signature = target->signature.Apart();
}

OpCall::Parameter OpCall::ParameterOf(const c10::Argument& argument, const std::string& name,
                                      const OpDescription& description) {
  c10::TypePtr type = argument.type();
  auto optional = type->cast<c10::OptionalType>();
  if (optional) type = optional->getElementType();
  auto list = type->cast<c10::ListType>();
  if (list) type = list->getElementType();
  Parameter parameter{Role::kAttribute, list != nullptr, optional != nullptr,
                      graphffi::Plan::Conversion::kNone};
  if (type->isSubtypeOf(*c10::TensorType::get())) {
    const c10::AliasInfo* alias = argument.alias_info();
    parameter.role = alias && alias->isWrite() ? Role::kOutput : Role::kInput;
  }
  auto conversion = description.conversions.find(name);
  if (conversion != description.conversions.end()) parameter.conversion = conversion->second;
  return parameter;
}

const CallTarget& OpCall::MadeTargetOf(size_t number) const {
  const size_t index = number - targets_.size();
  if (const CallTarget* known = made_.Find(index)) return *known;
  const auto made = opt_rule_->Made(static_cast<int32_t>(number));
  const CallTarget& like = *targets_.at(static_cast<size_t>(made.factory));
  return made_.Add(index, std::unique_ptr<const CallTarget>(new CallTarget{
                              graphffi::KernelSlot(made.reference), like.signature}));
}

const CallTarget& MadeTargets::Add(size_t index, std::unique_ptr<const CallTarget> target) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const CallTarget* known = Find(index)) return *known;
  if (tables_.empty() || index >= tables_.back()->size()) {
    auto table = std::make_unique<Table>(2 * index + 8);
    for (size_t i = 0; !tables_.empty() && i < tables_.back()->size(); ++i) {
      (*table)[i].store((*tables_.back())[i].load());
    }
    tables_.push_back(std::move(table));
    table_.store(tables_.back().get(), std::memory_order_release);
  }
  (*tables_.back())[index].store(target.get(), std::memory_order_release);
  targets_.push_back(std::move(target));
  return *targets_.back();
}

void OpFrame::Add(c10::ArrayRef<c10::IValue> arguments) {
  size_t i = 0;
  for (const OpCall::Parameter& parameter : op_.parameters_) {
    const c10::IValue& argument = arguments[i++];
    if (parameter.role == OpCall::Role::kAttribute) {
      parameter.is_list && !(parameter.is_optional && argument.isNone())
          ? attributes().AddList(ListOf(argument), parameter.conversion)
          : attributes().Add(argument, parameter.conversion);
    } else {
      TensorBank& tensors = TensorsOf(parameter.role);
      // Torch passes None as an undefined tensor where the schema has no optional one.
      if (parameter.is_list) {
        const auto list = ListOf(argument);
        for (const c10::IValue& item : list) CheckDefined(item, parameter.role);
        tensors.AddList(list);
      } else {
        if (!parameter.is_optional) CheckDefined(argument, parameter.role);
        tensors.Add(argument);
      }
    }
  }
}

void OpFrame::CheckDefined(const c10::IValue& tensor, OpCall::Role role) {
  if (tensor.isTensor() && tensor.toTensor().defined()) return;
  const TensorBank& tensors = TensorsOf(role);
  const auto slot = static_cast<size_t>(tensors.bank().size);
  throw graphffi::Error("TypeError", op_.subject() + ": operand '" + tensors.NameOfSlot(slot) +
                                         "': expected a tensor, got None");
}

TVMFFIAny OpFrame::Infer(graphffi::ResultShapes* shapes) {
  if (op_.opt_rule_ == nullptr) return {};
  graphffi::CallValues values;
  values.inputs = call_.inputs().bank();
  values.outputs = call_.outputs().bank();
  values.attributes = call_.attributes().bank();
  op_.opt_rule_->Infer(values, shapes);
  call_.SetTarget(op_.TargetOf(shapes->kernel));
  if (shapes->workspace_bytes < 0) return {};
  return graphffi::ToAny(shapes->workspace_bytes);
}

at::ScalarType OpFrame::TypeOf(const DLTensor& result, size_t index) {
  try {
    return at::toScalarType(result.dtype);
  } catch (const c10::Error&) {
    throw graphffi::Error("TypeError",
                          op_.subject() + ": result '" + call_.outputs().NameOfSlot(index) +
                              "': expected a dtype that torch passes to kernels, got " +
                              std::string(tvm::ffi::DLDataTypeToString(result.dtype)));
  }
}

void OpFrame::RunAllocated() {
  graphffi::ResultShapes shapes;
  const TVMFFIAny workspace = Infer(&shapes);
  const bool is_profiled = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
  for (int32_t i = 0; i < shapes.size(); ++i) {
    const at::ScalarType type = TypeOf(shapes[i], static_cast<size_t>(i));
    results().push_back(Empty(shapes[i], type, is_profiled));
  }
  for (size_t i = 0; i < results().size(); ++i) call_.outputs().Fill(i, results()[i]);
  call_.Run(results().size(), workspace);
}

void OpFrame::RunInto(c10::ArrayRef<c10::IValue> outputs) {
  graphffi::ResultShapes shapes;
  const TVMFFIAny workspace = Infer(&shapes);
  for (size_t i = 0; i < outputs.size(); ++i) call_.outputs().Fill(i, outputs[i].toTensor());
  CheckOutputs(shapes);
  call_.Run(0, workspace);
}

/// \throws graphffi::Error that names every output which is not as the rule says.
void OpFrame::CheckOutputs(const graphffi::ResultShapes& shapes) {
  std::string problems;
  bool wrong_dtype = false;
  const graphffi::Bank outputs = call_.outputs().bank();
  for (int32_t i = 0; i < shapes.size(); ++i) {
    const DLTensor& expected = shapes[i];
    std::string got = "None";
    bool same_dtype = false;
    if (outputs.values[i].type_index != kTVMFFINone) {
      const DLTensor& actual = *TVMFFITensorGetDLTensorPtr(outputs.values[i].v_obj);
      same_dtype = actual.dtype == expected.dtype;
      if (actual.device == expected.device && same_dtype && SameShape(actual, expected)) continue;
      got = graphffi::DescribeTensor(actual);
    }
    wrong_dtype = wrong_dtype || !same_dtype;
    problems += (problems.empty() ? " result '" : "; result '") +
                call_.outputs().NameOfSlot(static_cast<size_t>(i)) + "': expected " +
                graphffi::DescribeTensor(expected) + ", got " + got;
  }
  if (problems.empty()) return;
  throw graphffi::Error(wrong_dtype ? "TypeError" : "ValueError", op_.subject() + ":" + problems);
}

}  // namespace graphffi_torch

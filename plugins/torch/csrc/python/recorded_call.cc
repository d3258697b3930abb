// SPDX-License-Identifier: Apache-2.0
#include "python/recorded_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>
#include <utility>

#include "autograd/autograd_node.h"
#include "autograd/vjp_node.h"
#include "gil/gil.h"

namespace graphffi_torch {
namespace {

c10::IValue ToIValue(Kind kind, const TVMFFIAny& value) {
  switch (kind) {
    case Kind::kInt:
      return value.v_int64;
    case Kind::kFloat:
      return value.v_float64;
    case Kind::kBool:
      return value.v_int64 != 0;
    default:
      return std::string(value.v_c_str);
  }
}

c10::IValue ToListIValue(Kind kind, const TVMFFIAny* values, int32_t count) {
  static const c10::TypePtr types[] = {c10::IntType::get(), c10::FloatType::get(),
                                       c10::BoolType::get(), c10::StringType::get()};
  const auto first = static_cast<size_t>(Kind::kInt);
  c10::impl::GenericList list(types[static_cast<size_t>(kind) - first]);
  for (int32_t i = 0; i < count; ++i) list.push_back(ToIValue(kind, values[i]));
  return list;
}

c10::IValue ToTensorList(PyObject* tensors) {
  c10::List<at::Tensor> list;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tensors); ++k) {
    list.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(tensors, k)));
  }
  return list;
}

/// Argument `i` of a call, of which this is slot `slot` of the attributes if it is one.
c10::IValue ToIValue(const DirectOp::Parameter& parameter, const graphffi::Bank& attributes,
                     size_t slot, DirectArguments* arguments, size_t i) {
  PyObject* value = (*arguments)[i];
  if (value == Py_None) return c10::IValue();
  if (parameter.kind < Kind::kTensors) return THPVariable_Unpack(value);
  if (parameter.kind == Kind::kTensors) return ToTensorList(arguments->AsTuple(i));
  const graphffi::Slot where = attributes.slot(static_cast<int32_t>(slot));
  const TVMFFIAny* values = attributes.values + where.begin;
  return parameter.is_list ? ToListIValue(parameter.kind, values, where.count)
                           : ToIValue(parameter.kind, *values);
}

/// Without the digest, which is for graphs.
torch::jit::Stack ToIValues(const DirectOp& op, const graphffi::Bank& attributes,
                            DirectArguments* arguments) {
  torch::jit::Stack values;
  values.reserve(op.parameters.size() + 1);
  size_t next_attribute = 0;
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    const DirectOp::Parameter& parameter = op.parameters[i];
    values.push_back(ToIValue(parameter, attributes, next_attribute, arguments, i));
    next_attribute += parameter.kind > Kind::kTensors ? 1 : 0;
  }
  return values;
}

/// Calls the operator, whose results raise in the backward pass.
void RunWithoutRule(const DirectOp& op, torch::jit::Stack stack, OpFrame* frame) {
  static c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const c10::OperatorHandle handle = dispatcher.findSchemaOrThrow(op.call->subject().c_str(), "");
  stack.emplace_back(std::string());
  {
    const graphffi::GilRelease release(op.release_gil);
    handle.callBoxed(stack);
  }
  for (c10::IValue& result : stack) frame->results().push_back(std::move(result).toTensor());
}

}  // namespace

void RunRecorded(const DirectOp& op, DirectArguments* arguments, OpFrame* frame) {
  torch::jit::Stack values = ToIValues(op, frame->attributes().bank(), arguments);
  const GradientRule* rule = FindGradientRule(op.call->subject());
  if (rule == nullptr) return RunWithoutRule(op, std::move(values), frame);
  auto node = MakeNode<VjpNode>(rule, values);
  {
    const graphffi::GilRelease release(op.release_gil);
    const at::AutoDispatchBelowAutograd below;  // as the operator's kernel
    frame->Run();
  }
  node->RecordResults(frame->results());
}

}  // namespace graphffi_torch

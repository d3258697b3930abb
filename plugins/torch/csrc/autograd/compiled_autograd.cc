// SPDX-License-Identifier: Apache-2.0
#include "compiled_autograd.h"

#include <cctype>
#include <string>
#include <utility>
#include <vector>

namespace graphffi_torch {
namespace {

namespace autograd = torch::autograd;
namespace compiled = torch::dynamo::autograd;

/// Stands in generated code.
std::string Identifier(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace

void CollectAttribute(const c10::IValue& value, compiled::CompiledNodeArgs* args) {
  args->collect(value.tagKind());
  if (value.isInt() || value.isSymInt()) {
    args->collect(value.toSymInt().guard_int(__FILE__, __LINE__));
  } else if (value.isDouble()) {
    args->collect(value.toDouble());
  } else if (value.isBool()) {
    args->collect(value.toBool());
  } else if (value.isString()) {
    args->collect(value.toStringRef());
  } else if (value.isList()) {
    args->collect(static_cast<uint64_t>(value.toListRef().size()));
    for (const c10::IValue& item : value.toListRef()) CollectAttribute(item, args);
  }
}

void CollectShape(c10::SymIntArrayRef shape, compiled::CompiledNodeArgs* args) {
  args->collect(static_cast<uint64_t>(shape.size()));
  for (const c10::SymInt& size : shape) args->collect(size.guard_int(__FILE__, __LINE__));
}

autograd::variable_list CallCompiled(const autograd::Node& node,
                                     const autograd::variable_list& inputs,
                                     const autograd::variable_list& saved, CompiledApply apply,
                                     const compiled::SwapSavedVariables& state) {
  using Metadata = std::vector<std::optional<autograd::InputMetadata>>;
  using Tensors = compiled::IValuePacker<autograd::variable_list>;
  const auto& python = compiled::getPyCompilerInterface();
  const std::string name = python->bind_function(
      state.get_py_compiler(), Identifier(node.name()),
      [apply = std::move(apply)](const autograd::variable_list& given,
                                 const std::vector<c10::IValue>& packed) {
        return apply(given, Tensors::unpack(packed[0]));
      },
      {Tensors::packed_type()}, /*is_custom_function=*/true, /*is_traceable=*/true);
  const c10::IValue outputs =
      compiled::IValuePacker<Metadata>::pack(compiled::get_input_metadata(node.next_edges()));
  return python->call_function(state.get_py_compiler(), "apply_functional", name, inputs,
                               {Tensors::pack(saved)}, outputs);
}

}  // namespace graphffi_torch

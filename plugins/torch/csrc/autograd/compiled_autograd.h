// SPDX-License-Identifier: Apache-2.0
// How nodes that were recorded eagerly take part in compiled autograd.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <functional>

namespace graphffi_torch {

/// Makes an attribute part of what a node is compiled for.
void CollectAttribute(const c10::IValue& value, torch::dynamo::autograd::CompiledNodeArgs* args);
/// Makes sizes part of what a node is compiled for: rules may depend on them.
void CollectShape(c10::SymIntArrayRef shape, torch::dynamo::autograd::CompiledNodeArgs* args);

/// The work of a node. Called later and often, with the tensors of that run.
using CompiledApply = std::function<torch::autograd::variable_list(
    torch::autograd::variable_list inputs, torch::autograd::variable_list saved)>;

/// Puts a call of `apply` into the graph of compiled autograd, in the place of `node`'s.
/// `saved` are defined tensors.
torch::autograd::variable_list CallCompiled(
    const torch::autograd::Node& node, const torch::autograd::variable_list& inputs,
    const torch::autograd::variable_list& saved, CompiledApply apply,
    const torch::dynamo::autograd::SwapSavedVariables& state);

}  // namespace graphffi_torch

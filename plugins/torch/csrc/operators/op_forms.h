// SPDX-License-Identifier: Apache-2.0
// Operators of their own for ops that were defined at run time.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "call/plan.h"
#include "errors.h"
#include "shapes/shape_rule.h"

namespace graphffi_torch {

class OpCall;

/// An op as torch sees it. Operands are the schema's tensors, mutated ones those that it marks as
/// written; everything else is an attribute.
struct OpDescription {
  /// `ns::name(Tensor x, Tensor(a!) cache, float eps=1e-6, *, str graphffi_digest="") -> Tensor`
  std::string schema;
  /// The destination-passing form, `ns::name.out(…, *, Tensor(a!) out, str
  /// graphffi_digest="") -> ()`: the arguments of `schema`, and one per result before the digest.
  /// Empty: none.
  std::string opt_out_schema;
  /// The form for calls that count for more than their outputs, of an op that writes operands,
  /// `ns::name.effect(…) -> Tensor[]`: it takes the arguments of `schema`, writes none of them, and
  /// gives the results, then changed copies of the operands. Its fake is the caller's to register.
  /// Empty: none.
  std::string opt_effect_schema;
  /// The op's names of the arguments of `schema`, where torch has some under other names.
  std::vector<std::string> parameters;
  std::vector<std::string> results;
  /// Attributes whose strings the kernel gets as something else, by name.
  std::unordered_map<std::string, graphffi::Plan::Conversion> conversions;
  struct Kernel {
    std::string reference;
    std::string plan;  ///< over the names of arguments and results
  };
  std::vector<Kernel> kernels;
  /// Says which kernel a call runs, too. NULL: no results, nothing to check, one kernel.
  std::shared_ptr<graphffi::ShapeRule> opt_rule;
  bool may_run_again = true;      ///< otherwise calls that a checkpoint repeats are refused
  bool allow_cuda_graph = false;  ///< otherwise the operators say that they must not be recorded
  bool has_vmap_rule = false;     ///< the caller registers it; otherwise vmap is refused
};

/// Registers the operators of an op with the dispatcher, for the life of the process: kernels for
/// all devices, autograd guards, and for the destination-passing form Meta. The fake of `schema` is
/// the caller's to register. Gives the op, which lives as long as the process. Thread-safe.
/// Operators that are registered under the name run this description from now on. It has to have
/// the schemas, tags and kind of batching of the former one; calls that are under way end as they
/// began.
GRAPHFFI_TORCH_API const OpCall* DefineOp(const OpDescription& description);

/// Torch (2.10 to 2.15) takes a call with one tensor on the device meta for one about shapes alone.
/// \throws ValueError, as torch has it, for arguments with a tensor that has data
void CheckNoData(const std::string& subject, c10::ArrayRef<c10::IValue> arguments);

/// Puts a list of tensors in the place of the last `num_arguments` of a stack: what forms for side
/// effects return. Instead of an empty list, which torch's exported programs (up to 2.15) do not
/// survive, it returns a list of one empty tensor.
void ReturnList(c10::List<at::Tensor> list, size_t num_arguments, torch::jit::Stack* stack);

}  // namespace graphffi_torch

// SPDX-License-Identifier: Apache-2.0
#include "gradients.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <string>
#include <utility>
#include <vector>

#include "autograd_node.h"
#include "compiled_autograd.h"
#include "errors.h"
#include "forward_rule.h"
#include "operators/banks.h"
#include "operators/call_op.h"
#include "sites/call_site.h"
#include "tangent.h"
#include "vjp_node.h"

namespace graphffi_torch {
namespace {

namespace autograd = torch::autograd;
using torch::jit::Stack;

c10::ArrayRef<c10::IValue> Arguments(const c10::OperatorHandle& op, const Stack& stack) {
  return torch::jit::last(stack, op.schema().arguments().size());
}

/// The arguments of an op's operator but for the last, the digest.
c10::ArrayRef<c10::IValue> ParametersOf(const c10::OperatorHandle& op, const Stack& stack) {
  c10::ArrayRef<c10::IValue> arguments = Arguments(op, stack);
  return arguments.slice(0, arguments.size() - 1);
}

bool IsPrimitive(const std::string& name) {
  return name == kCallName || name == kCallGraphName || name == kCallEffectName;
}

/// How error texts name an operator, and a primitive's tensors.
CallNames NamesOf(const c10::OperatorHandle& op, const Stack& stack) {
  const std::string& name = op.schema().name();
  if (!IsPrimitive(name)) return {name, {}, {}, {}};
  c10::ArrayRef<c10::IValue> arguments = Arguments(op, stack);
  return CallNames::Parse(arguments.back().toStringRef(), arguments[0].toStringRef());
}

std::string SubjectOf(const c10::OperatorHandle& op, const Stack& stack) {
  const std::string& name = op.schema().name();
  if (!IsPrimitive(name)) return name;
  c10::ArrayRef<c10::IValue> arguments = Arguments(op, stack);
  return CallNames::ParseSubject(arguments.back().toStringRef(), arguments[0].toStringRef());
}

/// 'x', or 'xs[1]'; a primitive's tensors are in lists of no other use to readers.
std::string OperandName(const CallNames& names, const std::string& argument, int opt_index) {
  const std::vector<std::string>& known = argument == "inputs" ? names.inputs : names.outputs;
  if (opt_index < 0) return "'" + argument + "'";
  const auto index = static_cast<size_t>(opt_index);
  if (index < known.size()) return "'" + known[index] + "'";
  return "'" + argument + "[" + std::to_string(index) + "]'";
}

/// Raises when it runs on data. While a backward graph is traced, it leaves an operator that does
/// so, because tracing does not mean that anybody goes backward.
class NoGradient : public autograd::Node {
 public:
  NoGradient(std::string message, std::vector<std::vector<c10::SymInt>> sizes)
      : message_(std::move(message)), sizes_(std::move(sizes)) {}

  autograd::variable_list apply(autograd::variable_list&& grads) override {
    return Raise(grads, Needed(), sizes_, message_);
  }

  std::string name() const override { return "GraphffiNoGradient"; }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override {
    args.collect(message_);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      CollectShape(sizes_[i], &args);
      args.collect(task_should_compute_output(i));
    }
  }

  autograd::variable_list apply_with_saved(
      const autograd::variable_list& grads,
      torch::dynamo::autograd::SwapSavedVariables& saved) override {
    auto raise = [needed = Needed(), sizes = sizes_, message = message_](
                     const autograd::variable_list& given, const autograd::variable_list&) {
      return Raise(given, needed, sizes, message);
    };
    return CallCompiled(*this, grads, {}, std::move(raise), saved);
  }

 private:
  using Sizes = std::vector<std::vector<c10::SymInt>>;

  static autograd::variable_list Raise(const autograd::variable_list& grads,
                                       const std::vector<bool>& needed, const Sizes& sizes,
                                       const std::string& message) {
    at::Tensor grad;
    for (const at::Tensor& candidate : grads) {
      if (candidate.defined()) grad = candidate;
    }
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kNoGradientName, "");
    autograd::variable_list results(needed.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!grad.defined() || !needed[i]) continue;
      Stack stack{grad, c10::IValue(c10::SymIntArrayRef(sizes[i])), message};
      op.callBoxed(stack);
      results[i] = stack[0].toTensor();
    }
    return results;
  }

  /// Whether each output's gradient is needed.
  std::vector<bool> Needed() const {
    std::vector<bool> needed;
    for (size_t i = 0; i < num_outputs(); ++i) needed.push_back(task_should_compute_output(i));
    return needed;
  }

  std::string message_;
  Sizes sizes_;
};

/// The ends of errors for calls without the rule that they need.
constexpr const char* kRegisterRule =
    "register one with register_vjp, or define the op with gradient='reference'; an op with side "
    "effects can have none";
constexpr const char* kRegisterForwardRule =
    "register one with register_jvp, or define the op with gradient='reference'; an op with side "
    "effects can have none";
constexpr const char* kReturnNewTensors =
    "define an op that returns new tensors without side effects, which can have one";

bool HasTangents(const c10::OperatorHandle& op, const Stack& stack) {
  bool found = false;
  for (const c10::IValue& value : Arguments(op, stack)) {
    ForEachTensor(value, [&](const at::Tensor& tensor, int) { found |= HasTangent(tensor); });
  }
  return found;
}

[[noreturn]] void RefuseTangents(const std::string& subject, const char* remedy) {
  ThrowTracedError(graphffi::Error(
      "NotImplementedError", subject + ": jvp: expected a forward-mode rule, got none; " + remedy));
}

void RedispatchBoxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  try {
    op.redispatchBoxed(keys, stack);
  } catch (...) {
    RethrowOwnError(op.schema().name());
  }
}

bool IsRecorded(const c10::OperatorHandle& op, const Stack& stack) {
  bool recorded = false;
  for (const c10::IValue& value : Arguments(op, stack)) {
    ForEachTensor(value, [&](const at::Tensor& tensor, int) {
      recorded = recorded || tensor.requires_grad();
    });
  }
  return recorded;
}

void RedispatchBelowAutograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                             Stack* stack) {
  at::AutoDispatchBelowAutograd below;
  RedispatchBoxed(op, keys & c10::after_autograd_keyset, stack);
}

c10::ArrayRef<c10::IValue> ResultsOf(const c10::OperatorHandle& op, const Stack& stack) {
  return torch::jit::last(stack, op.schema().returns().size());
}

void RecordNoGradient(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  autograd::edge_list edges;
  std::vector<std::vector<c10::SymInt>> sizes;
  for (const c10::IValue& value : Arguments(op, *stack)) {
    ForEachTensor(value, [&](const at::Tensor& tensor, int) {
      if (!tensor.requires_grad()) return;
      edges.push_back(autograd::impl::gradient_edge(tensor));
      sizes.push_back(tensor.sym_sizes().vec());
    });
  }
  NodeRef node = MakeNode<NoGradient>(
      SubjectOf(op, *stack) + ": backward: expected a gradient rule, got none; " + kRegisterRule,
      std::move(sizes));
  node->set_next_edges(std::move(edges));
  RedispatchBelowAutograd(op, keys, stack);
  for (const c10::IValue& result : ResultsOf(op, *stack)) {
    ForEachTensor(result, [&](const at::Tensor& tensor, int) {
      if (autograd::isDifferentiableType(tensor.scalar_type())) {
        autograd::set_history(tensor, node);
      }
    });
  }
}

/// Records a node that applies the op's rule, or raises if there is none.
void RecordAndRun(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!c10::GradMode::is_enabled() || !IsRecorded(op, *stack)) {
    RedispatchBelowAutograd(op, keys, stack);
  } else if (const GradientRule* rule = FindGradientRule(op.schema().name())) {
    auto node = MakeNode<VjpNode>(rule, ParametersOf(op, *stack));
    RedispatchBelowAutograd(op, keys, stack);
    std::vector<at::Tensor> results;
    for (const c10::IValue& result : ResultsOf(op, *stack)) results.push_back(result.toTensor());
    node->RecordResults(results);
  } else {
    RecordNoGradient(op, keys, stack);
  }
}

void RunDifferentiably(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!HasTangents(op, *stack)) return RecordAndRun(op, keys, stack);
  const ForwardRule* rule = FindForwardRule(op.schema().name());
  if (rule == nullptr) RefuseTangents(SubjectOf(op, *stack), kRegisterForwardRule);
  ForwardCall call = SplitTangents(ParametersOf(op, *stack));
  RecordAndRun(op, keys, stack);
  for (const c10::IValue& result : ResultsOf(op, *stack)) call.results.push_back(result.toTensor());
  ApplyForwardRule(*rule, &call);
}

/// As torch does for its own operators: nothing could notice the update later.
[[noreturn]] void RefuseInferenceTensor(const c10::OperatorHandle& op, const Stack& stack,
                                        size_t argument) {
  ThrowTorchError(graphffi::Error(
      "RuntimeError", SubjectOf(op, stack) + ": operand '" +
                          op.schema().arguments()[argument].name() +
                          "': expected a tensor that may be updated outside of inference mode, "
                          "got one that was made in it; pass a clone"));
}

/// Makes the call, and bumps the versions of what it writes, even if it fails. Modes that look at
/// versions have to see those before the call, as they do with torch's own operators.
void RedispatchAndBump(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::SmallVector<at::Tensor, 4> written;
  size_t i = 0;
  for (const c10::IValue& value : Arguments(op, *stack)) {
    const c10::AliasInfo* alias = op.schema().arguments()[i++].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    ForEachTensor(value, [&](const at::Tensor& tensor, int) {
      if (!tensor.is_inference()) return written.push_back(tensor);
      if (!c10::InferenceMode::is_enabled()) RefuseInferenceTensor(op, *stack, i - 1);
    });
  }
  const auto bump = c10::make_scope_exit([&] {
    for (const at::Tensor& tensor : written) tensor.unsafeGetTensorImpl()->bump_version();
  });
  at::AutoDispatchBelowADInplaceOrView below;
  RedispatchBoxed(op, keys & c10::after_ADInplaceOrView_keyset, stack);
}

void CheckNothingIsRecorded(const c10::OperatorHandle& op, const Stack& stack) {
  if (!IsRecorded(op, stack)) return;
  const CallNames names = NamesOf(op, stack);
  std::string operands;
  size_t i = 0;
  for (const c10::IValue& value : Arguments(op, stack)) {
    const std::string& argument = op.schema().arguments()[i++].name();
    ForEachTensor(value, [&](const at::Tensor& tensor, int index) {
      if (!tensor.requires_grad()) return;
      operands += (operands.empty() ? "" : ", ") + OperandName(names, argument, index);
    });
  }
  ThrowTracedError(graphffi::Error(
      "NotImplementedError",
      names.subject + ": operand " + operands +
          ": expected no gradient to record for a call that writes its operands, got "
          "requires_grad=True; call it under torch.no_grad(), pass x.detach(), or use an op that "
          "returns new tensors"));
}

void RunUnrecorded(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (HasTangents(op, *stack)) RefuseTangents(SubjectOf(op, *stack), kReturnNewTensors);
  if (c10::GradMode::is_enabled()) CheckNothingIsRecorded(op, *stack);
  // The dispatcher would come to RedispatchAndBump next, in as much time again.
  if (keys.has(c10::DispatchKey::ADInplaceOrView)) return RedispatchAndBump(op, keys, stack);
  RedispatchBelowAutograd(op, keys, stack);
}

void FailInVmap(const c10::OperatorHandle& op, Stack* stack) {
  ThrowTracedError(graphffi::Error(
      "NotImplementedError",
      SubjectOf(op, *stack) +
          ": vmap: expected a batching rule, got none; define the op with vmap='sequential', or "
          "with vmap='broadcast' if its kernel takes leading batch dimensions"));
}

void RaiseNoGradient(const c10::OperatorHandle&, Stack* stack) {
  ThrowTorchError(graphffi::Error("NotImplementedError", stack->back().toStringRef()));
}

at::Tensor NoGradientMeta(const at::Tensor& grad, c10::SymIntArrayRef size, std::string_view) {
  return grad.new_empty_symint(size);
}

}  // namespace

torch::CppFunction RecordGradient() {
  return torch::CppFunction::makeFromBoxedFunction<&RunDifferentiably>();
}

torch::CppFunction RefuseVmap() { return torch::CppFunction::makeFromBoxedFunction<&FailInVmap>(); }

torch::CppFunction RefuseRecording() {
  return torch::CppFunction::makeFromBoxedFunction<&RunUnrecorded>();
}

torch::CppFunction BumpVersions() {
  return torch::CppFunction::makeFromBoxedFunction<&RedispatchAndBump>();
}

void RegisterNoGradient(torch::Library& library) {
  library.def("no_gradient(Tensor grad, SymInt[] size, str message) -> Tensor",
              {at::Tag::pt2_compliant_tag});
  library.impl("no_gradient",
               torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                               torch::CppFunction::makeFromBoxedFunction<&RaiseNoGradient>()));
  library.impl("no_gradient", torch::dispatch(c10::DispatchKey::Meta, &NoGradientMeta));
}

}  // namespace graphffi_torch

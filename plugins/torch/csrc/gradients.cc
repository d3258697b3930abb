// SPDX-License-Identifier: Apache-2.0
#include "gradients.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "banks.h"
#include "call_op.h"
#include "errors.h"

namespace graphffi_torch {
namespace {

namespace autograd = torch::autograd;
using torch::jit::Stack;

/// Visits the tensors of one argument with their position in it (-1: not a list).
template <typename Visit>
void ForEachTensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor(), -1);
  } else if (value.isList()) {
    int index = 0;
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor(), index);
      ++index;
    }
  }
}

c10::ArrayRef<c10::IValue> Arguments(const c10::OperatorHandle& op, const Stack& stack) {
  return torch::jit::last(stack, op.schema().arguments().size());
}

/// What the user calls the operator: for the primitive, the kernel.
std::string SubjectOf(const c10::OperatorHandle& op, const Stack& stack) {
  const std::string& name = op.schema().name();
  return name == kCallName ? Arguments(op, stack)[0].toStringRef() : name;
}

// Nodes are held by shared_ptr up to torch 2.12 and by intrusive_ptr later.
using NodeRef = decltype(autograd::Edge::function);

template <typename T, typename... Args>
NodeRef MakeNode(Args&&... args) {
  if constexpr (std::is_same_v<NodeRef, std::shared_ptr<autograd::Node>>) {
    return NodeRef(new T(std::forward<Args>(args)...));
  } else {
    return NodeRef(c10::make_intrusive<T>(std::forward<Args>(args)...));
  }
}

/// Raises when it runs on data. While a backward graph is traced, it leaves an operator that does
/// so, because tracing does not mean that anybody goes backward.
class NoGradient : public autograd::Node {
 public:
  NoGradient(std::string message, std::vector<std::vector<c10::SymInt>> sizes)
      : message_(std::move(message)), sizes_(std::move(sizes)) {}

  autograd::variable_list apply(autograd::variable_list&& grads) override {
    at::Tensor grad;
    for (const at::Tensor& candidate : grads) {
      if (candidate.defined()) grad = candidate;
    }
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kNoGradientName, "");
    autograd::variable_list results(num_outputs());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!grad.defined() || !task_should_compute_output(i)) continue;
      Stack stack{grad, c10::IValue(c10::SymIntArrayRef(sizes_[i])), message_};
      op.callBoxed(stack);
      results[i] = stack[0].toTensor();
    }
    return results;
  }

  std::string name() const override { return "GraphffiNoGradient"; }

 private:
  std::string message_;
  std::vector<std::vector<c10::SymInt>> sizes_;
};

std::string NoRuleMessage(const std::string& subject) {
  return subject +
         ": backward: expected a gradient rule, got none; register one with register_vjp, or call "
         "the "
         "op under torch.no_grad()";
}

class RefuseBackwardKernel : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    autograd::edge_list edges;
    std::vector<std::vector<c10::SymInt>> sizes;
    for (const c10::IValue& value : Arguments(op, *stack)) {
      ForEachTensor(value, [&](const at::Tensor& tensor, int) {
        if (!c10::GradMode::is_enabled() || !tensor.requires_grad()) return;
        edges.push_back(autograd::impl::gradient_edge(tensor));
        sizes.push_back(tensor.sym_sizes().vec());
      });
    }
    const bool recorded = !edges.empty();
    std::string subject = recorded ? SubjectOf(op, *stack) : std::string();
    {
      at::AutoDispatchBelowAutograd below;
      op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    if (!recorded) return;
    NodeRef node = MakeNode<NoGradient>(NoRuleMessage(subject), std::move(sizes));
    node->set_next_edges(std::move(edges));
    for (const c10::IValue& result : torch::jit::last(*stack, op.schema().returns().size())) {
      ForEachTensor(result, [&](const at::Tensor& tensor, int) {
        if (autograd::isDifferentiableType(tensor.scalar_type())) {
          autograd::set_history(tensor, node);
        }
      });
    }
  }
};

class RefuseRecordingKernel : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (c10::GradMode::is_enabled()) CheckNothingIsRecorded(op, *stack);
    at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }

 private:
  static void CheckNothingIsRecorded(const c10::OperatorHandle& op, const Stack& stack) {
    std::string names;
    size_t i = 0;
    for (const c10::IValue& value : Arguments(op, stack)) {
      const std::string& argument = op.schema().arguments()[i++].name();
      ForEachTensor(value, [&](const at::Tensor& tensor, int index) {
        if (!tensor.requires_grad()) return;
        names += (names.empty() ? "'" : ", '") + argument +
                 (index < 0 ? "'" : "[" + std::to_string(index) + "]'");
      });
    }
    if (names.empty()) return;
    ThrowTorchError(graphffi::Error(
        "NotImplementedError",
        SubjectOf(op, stack) + ": operand " + names +
            ": expected no gradient to record for a call that writes its operands, got "
            "requires_grad=True; call it under torch.no_grad(), pass x.detach(), or use an op that "
            "returns new tensors"));
  }
};

class BumpVersionsKernel : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    size_t i = 0;
    for (const c10::IValue& value : Arguments(op, *stack)) {
      const c10::AliasInfo* alias = op.schema().arguments()[i++].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      ForEachTensor(value, [](const at::Tensor& tensor, int) {
        if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
      });
    }
    at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  }
};

void RaiseNoGradient(const c10::OperatorHandle&, Stack* stack) {
  ThrowTorchError(graphffi::Error("NotImplementedError", stack->back().toStringRef()));
}

at::Tensor NoGradientMeta(const at::Tensor& grad, c10::SymIntArrayRef size, std::string_view) {
  return grad.new_empty_symint(size);
}

}  // namespace

torch::CppFunction RefuseBackward() {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RefuseBackwardKernel>());
}

torch::CppFunction RefuseRecording() {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RefuseRecordingKernel>());
}

torch::CppFunction BumpVersions() {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BumpVersionsKernel>());
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

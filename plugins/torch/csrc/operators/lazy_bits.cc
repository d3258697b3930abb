// SPDX-License-Identifier: Apache-2.0
#include "lazy_bits.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <utility>
#include <vector>

namespace graphffi_torch {
namespace {

/// The values that an operator gets in place of its arguments.
class Resolved {
 public:
  c10::IValue Of(const c10::IValue& argument, bool is_written) {
    if (argument.isTensor()) return Of(argument.toTensor(), is_written);
    if (argument.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        list.push_back(Of(tensor, is_written));
      }
      return list;
    }
    if (!argument.isOptionalTensorList()) return argument;
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(Of(*tensor, is_written)) : std::nullopt);
    }
    return list;
  }

  /// Hands what was written on.
  void CopyBack() const {
    for (const auto& [tensor, resolved] : written_) tensor.copy_(resolved);
  }

 private:
  at::Tensor Of(const at::Tensor& tensor, bool is_written) {
    if (!tensor.defined() || !HasLazyBits(tensor)) return tensor;
    at::Tensor resolved = tensor.resolve_conj().resolve_neg();
    if (is_written) written_.emplace_back(tensor, resolved);
    return resolved;
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
};

void RunOnResolved(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  Resolved resolved;
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* opt_alias = arguments[i].alias_info();
    c10::IValue& value = (*stack)[begin + i];
    value = resolved.Of(value, opt_alias != nullptr && opt_alias->isWrite());
  }
  // Conjugate comes after Negative.
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Conjugate);
  op.redispatchBoxed(keys & below, stack);
  resolved.CopyBack();
}

}  // namespace

void ResolveLazyBits(torch::Library* library, const char* name) {
  for (c10::DispatchKey lazy : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    library->impl(
        name, torch::dispatch(lazy, torch::CppFunction::makeFromBoxedFunction<&RunOnResolved>()));
  }
}

}  // namespace graphffi_torch

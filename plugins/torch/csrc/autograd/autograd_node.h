// SPDX-License-Identifier: Apache-2.0
// Shared by the autograd kernels: visiting the tensors of a boxed call, making nodes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace graphffi_torch {

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

/// Whether a tensor may be in the memory of another: always, for tensors of torch.func, which do
/// not say where they are.
inline bool MayShareMemory(const at::Tensor& a, const at::Tensor& b) {
  return !a.has_storage() || !b.has_storage() || a.is_alias_of(b);
}

// Nodes are held by shared_ptr up to torch 2.12 and by intrusive_ptr later.
using NodeRef = decltype(torch::autograd::Edge::function);

template <typename T, typename... Args>
auto MakeNode(Args&&... args) {
  if constexpr (std::is_same_v<NodeRef, std::shared_ptr<torch::autograd::Node>>) {
    // Torch's own deleter: long chains of nodes would overflow the stack without it.
    return std::shared_ptr<T>(new T(std::forward<Args>(args)...),
                              [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<T>(std::forward<Args>(args)...);
  }
}

}  // namespace graphffi_torch

// SPDX-License-Identifier: Apache-2.0
// Whether tensors have tangents.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

namespace graphffi_torch {

/// Whether a tensor was ever part of a dual number, itself or what it is a view of. Torch's own
/// question takes a lock for each tensor: 35 ns where two views are a call's operands.
inline bool MayHaveTangent(const at::TensorBase& tensor) {
  const at::TensorBase* viewed = &tensor;
  while (true) {
    const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(
        viewed->unsafeGetTensorImpl()->autograd_meta());
    if (meta == nullptr) return false;
    if (meta->fw_grad_ != nullptr) return true;
    if (!meta->is_view_) return false;
    const auto* view = static_cast<const torch::autograd::DifferentiableViewMeta*>(meta);
    if (!view->has_fw_view()) return false;
    viewed = &view->get_forward_view().base_;
  }
}

inline bool HasTangent(const at::Tensor& tensor) {
  return MayHaveTangent(tensor) && tensor._fw_grad(/*level=*/0).defined();
}

}  // namespace graphffi_torch

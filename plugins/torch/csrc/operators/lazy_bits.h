// SPDX-License-Identifier: Apache-2.0
// Tensors whose memory holds the conjugate or the negative of their elements.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace graphffi_torch {

/// Whether the elements are the conjugates or negatives of those in memory.
inline bool HasLazyBits(const at::Tensor& tensor) {
  return tensor.key_set().has_any(
      c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}));
}

/// Registers DispatchKey::Conjugate and DispatchKey::Negative of an operator: gives it tensors
/// whose memory holds their elements, and updates those that it writes. Torch's own kernel for that
/// (2.10 to 2.15) leaves lists of optional tensors alone, and refuses updates by operators with
/// results, of lists, and of several tensors.
void ResolveLazyBits(torch::Library* library, const char* name);

}  // namespace graphffi_torch

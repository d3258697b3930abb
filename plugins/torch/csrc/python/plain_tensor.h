// SPDX-License-Identifier: Apache-2.0
// Tensors that are what they seem.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace graphffi_torch {

/// What tensors have whose elements are in memory as their metadata says, and for which the
/// dispatcher has nothing to do in a call of an op but to find the kernel: no lazy bits, no
/// subclass, no transformation.
inline constexpr c10::DispatchKeySet kPlainTensor =
    c10::DispatchKeySet({c10::DispatchKey::Dense, c10::DispatchKey::ADInplaceOrView,
                         c10::DispatchKey::AutogradFunctionality}) |
    c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::BackendComponent::CPUBit, c10::BackendComponent::CUDABit,
                         c10::BackendComponent::HIPBit, c10::BackendComponent::XPUBit,
                         c10::BackendComponent::MPSBit, c10::BackendComponent::PrivateUse1Bit});

/// Operator- of DispatchKeySet would leave backends in.
inline bool IsWithin(c10::DispatchKeySet keys, c10::DispatchKeySet allowed) {
  return (keys.raw_repr() & ~allowed.raw_repr()) == 0;
}

}  // namespace graphffi_torch

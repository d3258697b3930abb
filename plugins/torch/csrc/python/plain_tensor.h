// SPDX-License-Identifier: Apache-2.0
// Tensors that are what they seem, and threads in no mode.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace graphffi_torch {

/// The keys of plain tensors: their elements are in memory as their metadata says, and the
/// dispatcher has nothing to do in a call of an op but to find the kernel. They have no lazy bits,
/// no subclass and no transformation.
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

/// Dispatch keys of a thread in no mode, tracer or transformation. Autocast is allowed: it has no
/// rule for ops.
inline constexpr c10::DispatchKeySet kPlainThread =
    c10::default_included_set | c10::autocast_dispatch_keyset;

/// Whether the dispatcher would do nothing but find the kernel, as far as the thread goes.
inline bool IsPlainThread(const c10::impl::LocalDispatchKeySet& thread) {
  // A profiler that records operators gets them from the dispatcher.
  return IsWithin(thread.included_, kPlainThread) && !at::impl::torch_function_mode_enabled() &&
         !at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
}

}  // namespace graphffi_torch

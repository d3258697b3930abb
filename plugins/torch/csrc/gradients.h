// SPDX-License-Identifier: Apache-2.0
// Autograd kernels for operators without a gradient rule: never a silently wrong or missing
// gradient.
#pragma once

#include <torch/library.h>

namespace graphffi_torch {

/// DispatchKey::Autograd of an operator with fresh results only: runs it; going backward through a
/// result raises.
torch::CppFunction RefuseBackward();

/// DispatchKey::Autograd of an operator that writes operands: raises where a gradient would be
/// recorded.
torch::CppFunction RefuseRecording();

/// DispatchKey::ADInplaceOrView of an operator that writes operands: bumps their version counters.
torch::CppFunction BumpVersions();

/// Declares tvm_ffi::no_gradient, which stands for the missing gradient in traced backward graphs.
void RegisterNoGradient(torch::Library& library);

}  // namespace graphffi_torch

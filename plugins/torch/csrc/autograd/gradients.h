// SPDX-License-Identifier: Apache-2.0
// Kernels of operators for torch's transformations: never a silently wrong or missing gradient.
#pragma once

#include <torch/library.h>

namespace graphffi_torch {

/// DispatchKey::Autograd of an operator with fresh results only: runs it; going backward through a
/// result applies the op's rule, or raises if it has none. So do tangents of operands, at once.
torch::CppFunction RecordGradient();

/// DispatchKey::Autograd of an operator that writes operands: raises where a gradient would be
/// recorded.
torch::CppFunction RefuseRecording();

/// DispatchKey::FuncTorchBatched of an operator without a batching rule: raises.
torch::CppFunction RefuseVmap();

/// DispatchKey::ADInplaceOrView of an operator that writes operands: bumps their version counters.
torch::CppFunction BumpVersions();

/// Declares tvm_ffi::no_gradient, which stands for the missing gradient in traced backward graphs.
void RegisterNoGradient(torch::Library& library);

}  // namespace graphffi_torch

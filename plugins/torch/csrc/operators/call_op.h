// SPDX-License-Identifier: Apache-2.0
// The primitives that exported graphs are made of: tvm_ffi::call and its two variants.
#pragma once

#include <string>

#include "errors.h"

namespace graphffi_torch {

inline constexpr const char* kCallName = "tvm_ffi::call";
/// As kCallName, for kernels that may be recorded into CUDA graphs: they only launch work on their
/// stream.
inline constexpr const char* kCallGraphName = "tvm_ffi::call_graph";
/// For calls with effects besides their outputs. It returns changed copies of these: torch's
/// compilers keep and order calls with effects only if they write nothing that they are given.
inline constexpr const char* kCallEffectName = "tvm_ffi::call_effect";
inline constexpr const char* kNoGradientName = "tvm_ffi::no_gradient";

/// Has the path of a library mean the file that is there now, as graphffi::RenewKernels does, also
/// in calls of the primitives through the dispatcher. Thread-safe.
GRAPHFFI_TORCH_API void UseLibrary(const std::string& path);

}  // namespace graphffi_torch

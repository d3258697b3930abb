// SPDX-License-Identifier: Apache-2.0
// tvm_ffi::call, the primitive that every exported graph is made of.
#pragma once

namespace graphffi_torch {

inline constexpr const char* kCallName = "tvm_ffi::call";
inline constexpr const char* kNoGradientName = "tvm_ffi::no_gradient";

}  // namespace graphffi_torch

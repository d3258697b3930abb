// SPDX-License-Identifier: Apache-2.0
// The base of the extra headers: functions that the runtime registers under global names.
#pragma once

#include <tvm/ffi/base_detail.h>
#include <tvm/ffi/function.h>

/// Everything in the extra headers is header-only here.
#define TVM_FFI_EXTRA_CXX_API

/// A Function of the runtime, looked up once. It is never released, so that it can be called at
/// exit. \throws Error(ValueError) if the runtime has no such function
#define TVM_FFI_RUNTIME_FUNCTION_(name)                                          \
  ([]() -> const ::tvm::ffi::Function& {                                         \
    static const auto* const function =                                          \
        new ::tvm::ffi::Function(::tvm::ffi::Function::GetGlobalRequired(name)); \
    return *function;                                                            \
  }())

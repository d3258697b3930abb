// SPDX-License-Identifier: Apache-2.0
// How errors of kernels and of graphffi leave through torch's dispatcher.
#pragma once

#include "callframe/error.h"

#define GRAPHFFI_TORCH_API __attribute__((visibility("default")))

namespace graphffi_torch {

/// Throws a C++ exception that stands for `error`; does not return.
using ErrorThrower = void (*)(const graphffi::Error& error);

/// Set by `_C`, which can throw any Python exception. NULL: back to C++ errors only.
GRAPHFFI_TORCH_API void SetErrorThrower(ErrorThrower opt_thrower);

/// Throws through the thrower if one is set, otherwise the c10 error of that kind; kinds that c10
/// lacks become a c10::Error whose text begins with the kind.
[[noreturn]] GRAPHFFI_TORCH_API void ThrowTorchError(const graphffi::Error& error);

}  // namespace graphffi_torch

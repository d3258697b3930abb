// SPDX-License-Identifier: Apache-2.0
// How errors of kernels and of graphffi leave through torch's dispatcher.
#pragma once

#include <memory>
#include <string>

#include "call/error.h"

#define GRAPHFFI_TORCH_API __attribute__((visibility("default")))

namespace graphffi_torch {

/// Functions of Python: those that know exceptions, and one for tracing. All take the GIL.
struct PythonErrors {
  void (*throw_error)(const graphffi::Error& error);  ///< as torch's C++ exception for it
  /// As throw_error; a tracer of the caller's code, if there is one, lets the error through.
  void (*throw_traced)(const graphffi::Error& error);
  void (*set_pending)(const graphffi::Error& error);  ///< in this thread
  /// Throws if a call of an operator, which runs while autograd goes back, repeats one before.
  void (*check_is_no_repetition)(const std::string& op);
  /// Throws the error that is being handled, or the operator's own where that stands for it.
  void (*rethrow)(const std::string& op);
  void (*prepare)();  ///< torch for graphs with calls of the primitives
};

/// Set by `_C`. \p errors lives until the process ends.
GRAPHFFI_TORCH_API void SetPythonErrors(const PythonErrors* errors);

/// Throws the Python exception where there are any, otherwise the c10 error of that kind; kinds
/// that c10 lacks become a c10::Error whose text begins with the kind.
[[noreturn]] GRAPHFFI_TORCH_API void ThrowTorchError(const graphffi::Error& error);

/// Throws an error that an operator finds without data.
[[noreturn]] void ThrowTracedError(const graphffi::Error& error);

/// Throws what is being handled again: the operator's own error if DTensor made another one of it.
[[noreturn]] void RethrowOwnError(const std::string& op);

/// Refuses the call of an operator that torch.utils.checkpoint makes again for a gradient.
void CheckIsNoRepetition(const std::string& op);

/// Prepares torch, before the first call of a primitive is traced, see _compiled/repairs.py.
void PrepareForCalls();

/// Makes the Python exception pending in this thread; false in a process without Python.
bool SetPendingError(const graphffi::Error& error);

/// The error of this thread's last failed call of generated code, which itself carries text only;
/// once. NULL if there is none.
GRAPHFFI_TORCH_API std::unique_ptr<graphffi::Error> TakeAotError();

}  // namespace graphffi_torch

// SPDX-License-Identifier: Apache-2.0
// Eager calls of graphffi.call_tvm_ffi on plain tensors, without the dispatcher.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi_torch {

/// Adds `call_raw(spec_type, reference, args, out, mutates)` to the module: the arguments of
/// graphffi.call_tvm_ffi, with the type of graphffi.TensorSpec. It returns what that returns, or
/// NotImplemented where the call is not plain: then nothing has happened, and the way through the
/// dispatcher runs it or says what is wrong.
void AddRawCall(pybind11::module_& module);

}  // namespace graphffi_torch

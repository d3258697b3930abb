// SPDX-License-Identifier: Apache-2.0
// Parts of the module _C.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi_torch {

/// Adds a call site as a Python callable, for the Python code that Inductor generates:
/// `call_site_v4`. Generated code is cached: a change here takes a new name.
void AddSiteObject(pybind11::module_& module);

/// Adds `call_raw(spec_type, reference, args, out, mutates)`, which makes eager calls of
/// graphffi.call_tvm_ffi on plain tensors without the dispatcher: its arguments, with the type of
/// graphffi.TensorSpec. It returns what that returns, or NotImplemented where the call is not
/// plain: then nothing has happened, and the way through the dispatcher runs it or says what is
/// wrong.
void AddRawCall(pybind11::module_& module);

/// Adds `Conditions`, of the sizes and strides of a package's inputs.
void AddConditions(pybind11::module_& module);

/// A capsule of a graphffi::TensorViewer for torch.Tensor and its subclasses: tensors as arguments
/// of functions, at the cost of a few loads. `exchange`, the capsule of torch's own exchange table,
/// is asked for tensors that are not plain.
pybind11::capsule MakeTensorViewer(const pybind11::capsule& exchange);

}  // namespace graphffi_torch

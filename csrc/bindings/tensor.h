// SPDX-License-Identifier: Apache-2.0
// The Python type graphffi.Tensor, and tensors in and out through DLPack.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include "bindings/object.h"

namespace graphffi::bindings {

/// A tensor of `value` through its framework's exchange table. \throws PythonError, Error
ObjectRef ImportExchanged(PyObject* value, const DLPackExchangeAPI& exchange);

/// A tensor of what `value.__dlpack__()` gives. \throws PythonError, py::error_already_set, Error
ObjectRef ImportProduced(PyObject* value);

/// *New reference* to an array of the framework behind `exchange`. \throws PythonError, Error
PyObject* ExportTensor(TVMFFIObjectHandle tensor, const DLPackExchangeAPI& exchange);

/// A tensor around memory that nobody keeps alive: for callbacks, while they run. \throws Error
ObjectRef ViewTensor(const DLTensor& source);

PyTypeObject* TensorType();

void DefineTensor(py::module_& module);

}  // namespace graphffi::bindings

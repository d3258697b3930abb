// SPDX-License-Identifier: Apache-2.0
// The Python type graphffi.Tensor, and tensors in and out through DLPack.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include "bindings/framework.h"
#include "bindings/object.h"

namespace graphffi::bindings {

/// A tensor of `value` through its framework's exchange table. \throws PythonError, Error
ObjectRef ImportExchanged(PyObject* value, const TypeEntry& type);

/// *New reference* to an array of the framework behind `exchange`. \throws PythonError, Error
PyObject* ExportTensor(TVMFFIObjectHandle tensor, const DLPackExchangeAPI& exchange);

/// A tensor like `source` with shape and strides of its own. `opt_release(owner)` runs when it
/// dies, or now if it can't be made. Without it nobody keeps the memory alive: for callbacks, while
/// they run. \throws Error
ObjectRef MakeTensor(const DLTensor& source, void* owner, void (*opt_release)(void* owner));

PyTypeObject* TensorType();

/// The capsule for graphffi.Tensor.__dlpack_c_exchange_api__.
py::object OwnExchangeTable();

}  // namespace graphffi::bindings

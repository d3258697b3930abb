// SPDX-License-Identifier: Apache-2.0
// DLPack's Python protocol: capsules of managed tensors.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/object.h"
#include "bindings/raised.h"

namespace graphffi::bindings {

/// A capsule that owns a managed tensor of `tensor`, of protocol 1 or of the one before. \throws
/// Error
py::object MakeCapsule(TVMFFIObjectHandle tensor, bool versioned);

/// The Python exception that is set was raised by `__dlpack__`, not about what that gave.
struct ProducerError : PythonError {};

/// A tensor of what `value.__dlpack__()` gives. \throws ProducerError, PythonError,
/// py::error_already_set, Error
ObjectRef ImportProduced(PyObject* value);

}  // namespace graphffi::bindings

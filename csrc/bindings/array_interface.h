// SPDX-License-Identifier: Apache-2.0
// NumPy arrays of data types that NumPy itself can't describe to DLPack, such as
// ml_dtypes.bfloat16.
#pragma once

#include <Python.h>

#include "bindings/object.h"

namespace graphffi::bindings {

/// A tensor that shares an array's memory, or nothing if NumPy describes its data type by itself
/// (or nobody can).
/// \throws py::error_already_set, Error
ObjectRef ImportExtensionArray(PyObject* value);

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// NumPy arrays: read without a call into Python, and of data types that NumPy itself can't describe
// to DLPack, such as ml_dtypes.bfloat16.
#pragma once

#include <Python.h>
#include <tvm/ffi/c_api.h>

#include "bindings/object.h"

namespace graphffi::bindings {

/// Reads arrays of one type: gives 0 and fills a view, whose strides are valid until the next call;
/// or 1 for an array that is better asked through DLPack, which knows what to say of it.
using ArrayView = int (*)(void* array, DLTensor* view);

/// For numpy.ndarray itself, if arrays are in memory as NumPy's C headers have always said; else
/// NULL. Under the GIL; no Python error is left.
ArrayView FindArrayView(PyTypeObject* type);

/// The array as a managed tensor that holds a reference to it; `view` is of it. \throws
/// std::bad_alloc
DLManagedTensorVersioned* ManageArray(PyObject* array);

/// A tensor that shares an array's memory, or nothing if NumPy describes its data type by itself
/// (or nobody can).
/// \throws py::error_already_set, Error
ObjectRef ImportExtensionArray(PyObject* value);

}  // namespace graphffi::bindings

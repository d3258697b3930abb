// SPDX-License-Identifier: Apache-2.0
// Shapes, arrays and maps of the runtime, made of and read into Python's tuples, lists and dicts.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include "bindings/framework.h"
#include "bindings/object.h"

namespace graphffi::bindings {

/// An ffi.Shape of a tuple of ints. \throws PythonError
TVMFFIAny MakeShape(PyObject* tuple);

/// *New reference* to a graphffi.Shape, a list, a dict (or a Map, where keys are equal in Python).
/// \throws PythonError, Error
PyObject* FromShape(TVMFFIObjectHandle shape);
PyObject* FromArray(TVMFFIObjectHandle array, Framework opt_framework);
PyObject* FromMap(TVMFFIObjectHandle map, Framework opt_framework);

}  // namespace graphffi::bindings

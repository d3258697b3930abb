// SPDX-License-Identifier: Apache-2.0
// graphffi.dtype and graphffi.Device as DLPack's structs and back.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

namespace graphffi::bindings {

/// `value`: a graphffi.dtype. \throws py::error_already_set
DLDataType ToDType(PyObject* value);
/// `value`: a data type of another library, or a class that stands for one.
DLDataType ToForeignDType(PyObject* value);
/// `value`: a graphffi.Device.
DLDevice ToDevice(PyObject* value);
/// `value`: whatever graphffi.Device can be made of.
DLDevice ToForeignDevice(PyObject* value);

/// *New reference* to a graphffi.dtype or graphffi.Device: the same for the same value, unless
/// there were very many since.
PyObject* FromDType(DLDataType dtype);
PyObject* FromDevice(DLDevice device);

}  // namespace graphffi::bindings

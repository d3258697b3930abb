// SPDX-License-Identifier: Apache-2.0
// Values of the runtime as Python values.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include "bindings/framework.h"

namespace graphffi::bindings {

/// *New reference* to `owned`, which is used up, as a Python value; tensors, also those in
/// containers, become arrays of `opt_framework`. \throws PythonError, Error
PyObject* ToPython(TVMFFIAny* owned, Framework opt_framework);

/// ToPython for a view.
PyObject* ViewToPython(const TVMFFIAny& view, Framework opt_framework);

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// Python callables as functions of the runtime.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/object.h"

namespace graphffi::bindings {

/// A function that calls `callable` under the GIL, on whatever thread. \throws Error
ObjectRef MakeCallback(PyObject* callable);

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// The runtime's table of global functions.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/object.h"

namespace graphffi::bindings {

void DefineRegistry(py::module_& module);

}  // namespace graphffi::bindings

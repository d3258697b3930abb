// SPDX-License-Identifier: Apache-2.0
// The runtime's table of global functions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "bindings/object.h"

namespace graphffi::bindings {

/// The global function called `name`, or nothing. \throws Error
ObjectRef FindGlobal(const std::string& name);

void DefineRegistry(py::module_& module);

}  // namespace graphffi::bindings

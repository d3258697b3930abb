// SPDX-License-Identifier: Apache-2.0
// Modules: loading them, what they import, what they are saved as.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi::bindings {

void DefineLibrary(pybind11::module_& module);

}  // namespace graphffi::bindings

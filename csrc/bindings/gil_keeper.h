// SPDX-License-Identifier: Apache-2.0
// The process's keeper of Python's lock.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi::bindings {

/// Makes it, where Python lets it work; from then on calls park the GIL. Until Python shuts down.
void DefineGilKeeper(pybind11::module_& module);

}  // namespace graphffi::bindings

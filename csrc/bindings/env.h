// SPDX-License-Identifier: Apache-2.0
// The process's and the thread's env, as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi::bindings {

void DefineEnv(pybind11::module_& module);

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// Calls by plan and by kernel reference, for the packages above.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi::bindings {

void DefinePlanCall(pybind11::module_& module);

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// The base of graphffi.Op: a vectorcall that lets frameworks take calls over in C.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi::bindings {

void DefineOp(pybind11::module_& module);

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// What graphffi._core is made of: each adds its part to the module.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi::bindings {

/// graphffi.Object, base of Function, Tensor and Module.
void DefineObject(pybind11::module_& module);
void DefineFunction(pybind11::module_& module);
void DefineTensor(pybind11::module_& module);

/// Modules: loading them, what they import, what they are saved as.
void DefineLibrary(pybind11::module_& module);

/// The base of graphffi.Op: a vectorcall that lets frameworks take calls over in C.
void DefineOp(pybind11::module_& module);

/// The runtime's table of global functions.
void DefineRegistry(pybind11::module_& module);

/// Calls by plan and by kernel reference, for the packages above.
void DefinePlanCall(pybind11::module_& module);

/// Functions that call kernels by plans, for compilers of other projects.
void DefinePlanFunction(pybind11::module_& module);

/// The process's and the thread's env, as Python sees it.
void DefineEnv(pybind11::module_& module);

}  // namespace graphffi::bindings

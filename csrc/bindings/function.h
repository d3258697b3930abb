// SPDX-License-Identifier: Apache-2.0
// The Python type graphffi.Function: a vectorcall that packs its arguments through a CallFrame.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/arguments.h"
#include "bindings/object.h"
#include "call/call_frame.h"
#include "observe/debug_call.h"

namespace graphffi::bindings {

struct PyFunction {
  PyObjectRef base;
  vectorcallfunc vectorcall;
  Kernel kernel;            // borrowed from base.handle
  PyObject* opt_name;       // str, for errors and repr
  PyObject* opt_reference;  // str, the kernel reference by which graphs name it
  PyObject* opt_doc;        // str
  PyObject* opt_metadata;   // str, as its library exports it
  char release_gil;
};

PyTypeObject* FunctionType();

/// *New reference* to a graphffi.Function.
PyObject* WrapFunction(ObjectRef function, PyObject* opt_name = nullptr,
                       PyObject* opt_reference = nullptr);

/// Calls `function` with what `frame` holds: with the env of the arguments, and without the GIL
/// unless the function keeps it. *New reference* to the result, in the arguments' framework.
/// `opt_declared`: of an op's call, its name and, for GRAPHFFI_DEBUG=1, its tensors.
/// \throws PythonError, Error
PyObject* CallWithFrame(const PyFunction& function, CallFrame& frame, const Arguments& arguments,
                        const DeclaredTensors* opt_declared = nullptr);

}  // namespace graphffi::bindings

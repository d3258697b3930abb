// SPDX-License-Identifier: Apache-2.0
// Errors both ways: Python exceptions as TVM FFI errors, and back as the same exception.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include <string>

#include "call/error.h"

namespace graphffi::bindings {

namespace py = pybind11;

/// Thrown after a Python exception has been set in this thread.
struct PythonError {};

/// Sets the Python exception `type` with `message`. \throws PythonError always
[[noreturn]] void Fail(PyObject* type, const std::string& message);

/// Sets the exception `type` with `message` and the text of the one that is set now, its cause;
/// leaves KeyboardInterrupt and its like. \throws PythonError always
[[noreturn]] void FailFromCurrent(PyObject* type, const std::string& message);

/// \throws PythonError if `result` is NULL, which in Python's C API says that an exception is set.
template <typename T>
T* Check(T* result) {
  if (result == nullptr) throw PythonError();
  return result;
}

/// Sets the Python exception that `error` stands for: the very object, if Python raised it.
void SetPythonError(const Error& error);

/// The exception that an Error object stands for.
py::object ToException(TVMFFIObjectHandle error);

/// Registers the global function "graphffi.keeps_exception", by which C++ code that does not have
/// the GIL asks whether Python raised an Error object.
void RegisterKeepsException();

/// Puts the Python exception that is set now into this thread's error slot, which keeps it alive;
/// -1.
int RaiseCurrentPythonError() noexcept;

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// Where C++ code is called by Python's C API: no exception crosses.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include "bindings/raised.h"

namespace graphffi::bindings {

/// Sets the Python exception for the C++ exception that is being handled.
void SetPythonErrorFromCurrent() noexcept;

/// The result of `body`, or NULL with a Python exception set.
template <typename Body>
PyObject* Guard(Body&& body) noexcept {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();  // Python shuts down, and ends this thread in `body`: see UntilShutdown
  } catch (...) {
    SetPythonErrorFromCurrent();
    return nullptr;
  }
}

/// 0 after `body`, or -1 with a Python exception set.
template <typename Body>
int GuardStatus(Body&& body) noexcept {
  const PyObject* opt_done = Guard([&] {
    body();
    return Py_None;  // borrowed
  });
  return opt_done == nullptr ? -1 : 0;
}

}  // namespace graphffi::bindings

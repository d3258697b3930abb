// SPDX-License-Identifier: Apache-2.0
// Python exceptions for C++ errors.
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include "errors.h"
#include "gil/gil.h"

namespace graphffi_torch {

/// Throws the pending Python exception as torch's C++ exception for it.
[[noreturn]] void ThrowPending();

/// Makes Python's exception of `error` pending. Needs the GIL.
void SetPythonError(const graphffi::Error& error);

/// `reraise_last` is called to raise the error that is in the thread's slot, `trace_ender` with an
/// exception that is meant for the caller of traced code, see _compiled/dynamo.py, `own_raiser`
/// with an operator's name and what a call of it raised, see _operators/sharding.py,
/// `repetition_refuser` with an operator's name, see _operators/recompute.py, and `preparer` when
/// calls are traced, see _compiled/repairs.py. All are kept for good.
void SetRaisers(pybind11::object reraise_last, pybind11::object trace_ender,
                pybind11::object own_raiser, pybind11::object repetition_refuser,
                pybind11::object preparer);

/// Registers a function that raises what is in the error slot, by which graphffi can get it.
void RegisterReraiseLastError(const std::string& name);

/// Runs `body` so that errors become what torch's own bindings make of them.
template <typename Body>
auto Translated(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const graphffi::Error& error) {
    SetPythonError(error);
  } catch (python_error& error) {
    error.restore();
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
  throw pybind11::error_already_set();
}

/// The same where Python's C API calls: NULL with Python's exception pending.
template <typename Body>
PyObject* TranslatedOrNull(const Body& body) {
  try {
    return Translated(body);
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

/// Runs `body` with the GIL. Python's exceptions are thrown as torch's C++ ones.
template <typename Body>
auto WithGil(const Body& body) -> decltype(body()) {
  const graphffi::GilHold gil;
  gil.Check();
  try {
    return body();
  } catch (pybind11::error_already_set& error) {
    error.restore();
    ThrowPending();
  }
}

}  // namespace graphffi_torch

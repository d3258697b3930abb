// SPDX-License-Identifier: Apache-2.0
#include "python/raise.h"

#include <stdexcept>

#include "gil/gil.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

PyObject* reraise = nullptr;  // kept for the life of the process

/// The function behind `reraise`: fails with the error that is in this thread's slot.
int ReraiseLastError(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return -1; }

void ThrowPython(const graphffi::Error& error) {
  const graphffi::GilHold gil;
  if (!gil.ok()) throw error;
  SetPythonError(error);
  ThrowPending();
}

void SetPending(const graphffi::Error& error) {
  const graphffi::GilHold gil;
  if (gil.ok()) SetPythonError(error);
}

}  // namespace

void ThrowPending() {
  python_error pending;
  pending.persist();
  throw pending;  // NOLINT: moved out of the block that owns it
}

// What Python makes of the error is graphffi's business: it is put back, and a call through
// graphffi raises it, as the very exception that a Python callback raised, or as one of its kind.
void SetPythonError(const graphffi::Error& error) {
  if (error.opt_object() != nullptr) {
    TVMFFIErrorSetRaised(error.opt_object());
  } else {
    graphffi::SetRaised(error.kind(), error.message());
  }
  Py_XDECREF(graphffi::UntilShutdown([] { return PyObject_CallNoArgs(reraise); }));
}

void SetReraise(py::object function) {
  Py_XDECREF(reraise);
  reraise = function.release().ptr();
  static const PythonErrors errors{&ThrowPython, &SetPending};
  SetPythonErrors(&errors);
}

void RegisterReraiseLastError(const std::string& name) {
  TVMFFIObjectHandle function = nullptr;
  int rc = TVMFFIFunctionCreate(nullptr, &ReraiseLastError, nullptr, &function);
  if (rc == 0) {
    TVMFFIByteArray bytes{name.data(), name.size()};
    rc = TVMFFIFunctionSetGlobal(&bytes, function, 1);
    TVMFFIObjectDecRef(function);
  }
  if (rc != 0) throw std::runtime_error(graphffi::Error::TakeRaised(rc).what());
}

}  // namespace graphffi_torch

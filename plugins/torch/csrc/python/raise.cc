// SPDX-License-Identifier: Apache-2.0
#include "python/raise.h"

#include "call/global_function.h"
#include "gil/gil.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

// Kept for the life of the process.
PyObject *reraise = nullptr, *end_trace = nullptr, *raise_own = nullptr, *refuse_again = nullptr,
         *prepare = nullptr;

/// The function behind `reraise`: fails with the error that is in this thread's slot.
int ReraiseLastError(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return -1; }

void ThrowPython(const graphffi::Error& error) {
  const graphffi::GilHold gil;
  if (!gil.ok()) throw error;
  SetPythonError(error);
  ThrowPending();
}

/// Throws the pending exception, or what `replace` raises when it is given that.
template <typename Replace>
[[noreturn]] void ThrowReplaced(const Replace& replace) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* returned = replace(value);
  Py_XDECREF(returned);
  if (returned == nullptr) {
    for (PyObject* object : {type, value, traceback}) Py_XDECREF(object);
  } else {
    PyErr_Restore(type, value, traceback);
  }
  ThrowPending();
}

void ThrowTraced(const graphffi::Error& error) {
  const graphffi::GilHold gil;
  if (!gil.ok()) throw error;
  SetPythonError(error);
  ThrowReplaced([](PyObject* value) { return PyObject_CallOneArg(end_trace, value); });
}

void RethrowOwn(const std::string& op) {
  const graphffi::GilHold gil;
  if (!gil.ok()) throw;
  try {
    throw;
  } catch (python_error& error) {
    error.restore();
  } catch (py::error_already_set& error) {
    error.restore();
  }
  ThrowReplaced(
      [&op](PyObject* value) { return PyObject_CallFunction(raise_own, "sO", op.c_str(), value); });
}

void RefuseRepetition(const std::string& op) {
  const graphffi::GilHold gil;
  if (!gil.ok()) return;
  PyObject* returned = PyObject_CallFunction(refuse_again, "s", op.c_str());
  if (returned == nullptr) ThrowPending();
  Py_DECREF(returned);
}

void Prepare() {
  const graphffi::GilHold gil;
  if (!gil.ok()) return;
  PyObject* returned = PyObject_CallNoArgs(prepare);
  if (returned == nullptr) ThrowPending();
  Py_DECREF(returned);
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

// graphffi turns the error into a Python exception: it is put back, and a call through graphffi
// raises it, as the very exception that a Python callback raised, or as one of its kind.
void SetPythonError(const graphffi::Error& error) {
  graphffi::SetRaised(error);
  Py_XDECREF(graphffi::UntilShutdown([] { return PyObject_CallNoArgs(reraise); }));
}

void SetRaisers(py::object reraise_last, py::object trace_ender, py::object own_raiser,
                py::object repetition_refuser, py::object preparer) {
  reraise = reraise_last.release().ptr();
  end_trace = trace_ender.release().ptr();
  raise_own = own_raiser.release().ptr();
  refuse_again = repetition_refuser.release().ptr();
  prepare = preparer.release().ptr();
  static const PythonErrors errors{&ThrowPython,      &ThrowTraced, &SetPending,
                                   &RefuseRepetition, &RethrowOwn,  &Prepare};
  SetPythonErrors(&errors);
}

void RegisterReraiseLastError(const std::string& name) {
  graphffi::SetGlobal(name, &ReraiseLastError, /*allow_override=*/true);
}

}  // namespace graphffi_torch

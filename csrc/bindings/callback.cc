// SPDX-License-Identifier: Apache-2.0
#include "bindings/callback.h"

#include "bindings/arguments.h"
#include "bindings/guard.h"
#include "bindings/raised.h"
#include "bindings/value.h"
#include "gil/gil.h"
#include "hooks/callback_filter.h"

namespace graphffi::bindings {

namespace {

// Guarded by the GIL.
const CallbackFilter* opt_filter = nullptr;
PyObject* opt_runner = nullptr;

/// Callbacks under way on a thread that Python did not start.
thread_local int foreign_depth = 0;

/// Counts one, for a scope that begins before the GIL is taken.
class ForeignThread {
 public:
  ForeignThread() : counts_(foreign_depth != 0 || PyGILState_GetThisThreadState() == nullptr) {
    if (counts_) ++foreign_depth;
  }
  ~ForeignThread() {
    if (counts_) --foreign_depth;
  }
  ForeignThread(const ForeignThread&) = delete;
  ForeignThread& operator=(const ForeignThread&) = delete;

 private:
  bool counts_;
};

/// *New reference*, or NULL with a Python error.
PyObject* Call(PyObject* callable, const py::tuple& values) {
  if (opt_filter == nullptr || !opt_filter->needs_runner(foreign_depth != 0)) {
    return UntilShutdown([&] { return PyObject_Call(callable, values.ptr(), nullptr); });
  }
  const py::object runner = py::reinterpret_borrow<py::object>(opt_runner);
  return UntilShutdown(
      [&] { return PyObject_CallFunctionObjArgs(runner.ptr(), callable, values.ptr(), nullptr); });
}

/// Calls the callable and stores its result as an owned value. *New reference* to None on success.
PyObject* CallAndConvert(PyObject* callable, const TVMFFIAny* args, int32_t num_args,
                         TVMFFIAny* result) {
  py::tuple values(static_cast<size_t>(num_args));
  for (int32_t i = 0; i < num_args; ++i) {
    PyTuple_SET_ITEM(values.ptr(), i, ViewToPython(args[i]));
  }
  const py::object returned = py::reinterpret_steal<py::object>(Check(Call(callable, values)));
  PyObject* name = PyObject_GetAttrString(callable, "__name__");
  if (name == nullptr) PyErr_Clear();
  const py::object owner = py::reinterpret_steal<py::object>(name);
  Arguments converter(name);
  converter.SetPosition("result", -1);
  *result = converter.Own(returned.ptr());
  return Py_NewRef(Py_None);
}

int SafeCall(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  const ForeignThread thread;
  const GilHold gil;
  if (!gil.ok()) return SetRaised("RuntimeError", GilHold::kShutDown);
  auto* callable = static_cast<PyObject*>(self);
  PyObject* none = Guard([&] { return CallAndConvert(callable, args, num_args, result); });
  if (none == nullptr) return RaiseCurrentPythonError();
  Py_DECREF(none);
  return 0;
}

void Delete(void* self) {
  const GilHold gil;
  if (gil.ok()) DropUntilShutdown(static_cast<PyObject*>(self));
}

}  // namespace

ObjectRef MakeCallback(PyObject* callable) {
  TVMFFIObjectHandle function = nullptr;
  Py_INCREF(callable);
  const int rc = TVMFFIFunctionCreate(callable, &SafeCall, &Delete, &function);
  if (rc != 0) {
    Py_DECREF(callable);
    throw Error::TakeRaised(rc);
  }
  return ObjectRef(function);
}

static void SetCallbackRunner(const py::capsule& filter, const py::object& runner) {
  void* pointer = PyCapsule_GetPointer(filter.ptr(), CallbackFilter::kName);
  if (pointer == nullptr) throw py::error_already_set();
  const py::object old = py::reinterpret_steal<py::object>(opt_runner);
  opt_runner = runner.inc_ref().ptr();
  opt_filter = static_cast<const CallbackFilter*>(pointer);
}

void DefineCallbacks(py::module_& module) {
  module.def("set_callback_runner", &SetCallbackRunner, py::arg("filter"), py::arg("runner"),
             "Call callables as runner(callable, args) where a capsule's CallbackFilter says so.");
}

}  // namespace graphffi::bindings

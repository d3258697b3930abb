// SPDX-License-Identifier: Apache-2.0
#include "bindings/callback.h"

#include "bindings/arguments.h"
#include "bindings/guard.h"
#include "bindings/raised.h"
#include "bindings/value.h"
#include "gil/gil.h"

namespace graphffi::bindings {

namespace {

/// Calls the callable and stores its result as an owned value.
void CallAndConvert(PyObject* callable, const TVMFFIAny* args, int32_t num_args,
                    TVMFFIAny* result) {
  py::tuple values(static_cast<size_t>(num_args));
  for (int32_t i = 0; i < num_args; ++i) {
    PyTuple_SET_ITEM(values.ptr(), i, ViewToPython(args[i], nullptr));
  }
  const py::object returned = py::reinterpret_steal<py::object>(
      Check(UntilShutdown([&] { return PyObject_Call(callable, values.ptr(), nullptr); })));
  const py::object opt_name = OptAttribute(callable, "__name__");
  Arguments converter(opt_name.ptr(), /*takes_big_ints=*/true);
  converter.SetPosition("result", -1);
  *result = converter.Own(returned.ptr());
}

int SafeCall(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  const GilHold gil;
  if (!gil.ok()) return SetRaised("RuntimeError", GilHold::kShutDown);
  auto* callable = static_cast<PyObject*>(self);
  const int status = GuardStatus([&] { CallAndConvert(callable, args, num_args, result); });
  return status == 0 ? 0 : RaiseCurrentPythonError();
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

}  // namespace graphffi::bindings

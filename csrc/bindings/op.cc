// SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>
#include <structmember.h>

#include <cstddef>
#include <string>
#include <vector>

#include "bindings/define.h"
#include "bindings/guard.h"
#include "bindings/object.h"
#include "bindings/raised.h"
#include "hooks/plugin_call.h"

namespace graphffi::bindings {

namespace {

struct PyOp {
  static constexpr int kMaxDirectCalls = 4;
  PyObject_HEAD vectorcallfunc vectorcall;
  int num_direct_calls;
  PluginCall direct_calls[kMaxDirectCalls];  // of capsules that are kept for good
};

PyTypeObject* op_type = nullptr;

PyOp* AsOp(PyObject* self) { return reinterpret_cast<PyOp*>(self); }

/// The class's `call_eagerly`. Tracers, which do not come here, follow its `__call__`.
PyObject* CallInPython(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return Guard([&]() -> PyObject* {
    static PyObject* const name = PyUnicode_InternFromString("call_eagerly");
    const py::object method = py::reinterpret_steal<py::object>(
        Check(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), name)));
    const auto num_args = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
    const size_t count =
        num_args + (kwnames == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(kwnames)));
    std::vector<PyObject*> all(count + 1);
    all[0] = self;
    for (size_t i = 0; i < count; ++i) all[i + 1] = args[i];
    return PyObject_Vectorcall(method.ptr(), all.data(), num_args + 1, kwnames);
  });
}

PyObject* CallOp(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const PyOp* op = AsOp(self);
  void* const* objects = reinterpret_cast<void* const*>(const_cast<PyObject**>(args));
  for (int i = 0; i < op->num_direct_calls; ++i) {
    const PluginCall& direct = op->direct_calls[i];
    void* result = direct.call(direct.context, objects, PyVectorcall_NARGS(nargsf), kwnames);
    if (result != nullptr) return static_cast<PyObject*>(result);
    if (PyErr_Occurred() != nullptr) return nullptr;
  }
  return CallInPython(self, args, nargsf, kwnames);
}

PyObject* NewOp(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) AsOp(self)->vectorcall = &CallOp;
  return self;
}

void DeallocateOp(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* AddDirectCall(PyObject* self, PyObject* capsule) {
  return Guard([&]() -> PyObject* {
    void* direct = PyCapsule_GetPointer(capsule, PluginCall::kName);
    if (direct == nullptr) throw PythonError();
    PyOp* op = AsOp(self);
    if (op->num_direct_calls == PyOp::kMaxDirectCalls) {
      Fail(PyExc_ValueError, "graphffi: Op: expected at most " +
                                 std::to_string(PyOp::kMaxDirectCalls) + " direct calls");
    }
    Py_INCREF(capsule);
    op->direct_calls[op->num_direct_calls++] = *static_cast<const PluginCall*>(direct);
    Py_RETURN_NONE;
  });
}

/// Calls that are under way go on with what took them over.
PyObject* DropDirectCalls(PyObject* self, PyObject*) {
  AsOp(self)->num_direct_calls = 0;
  Py_RETURN_NONE;
}

PyMemberDef op_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef op_methods[] = {
    {"add_direct_call", &AddDirectCall, METH_O,
     "Have a plugin take calls over, by a capsule of a PluginCall."},
    {"drop_direct_calls", &DropDirectCalls, METH_NOARGS,
     "Have no plugin take calls over, until one is added again."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot op_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(&NewOp)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocateOp)},
    {Py_tp_members, op_members},
    {Py_tp_methods, op_methods},
    {Py_tp_doc, const_cast<char*>("The base of graphffi.Op.")},
    {0, nullptr},
};

PyType_Spec op_spec = {"graphffi._core.OpBase", sizeof(PyOp), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, op_slots};

/// Has calls of a class's objects go through OpBase's vectorcall first. A class that defines
/// `__call__` in Python does not inherit that.
void EnableVectorcall(py::type type) {
  auto* python_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  if (PyType_IsSubtype(python_type, op_type) == 0) {
    Fail(PyExc_TypeError, "graphffi: enable_vectorcall: expected a subclass of OpBase");
  }
  python_type->tp_vectorcall_offset = static_cast<Py_ssize_t>(offsetof(PyOp, vectorcall));
  python_type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
}

}  // namespace

void DefineOp(py::module_& module) {
  op_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&op_spec));
  if (op_type == nullptr) throw py::error_already_set();
  module.attr("OpBase") = py::handle(reinterpret_cast<PyObject*>(op_type));
  module.def("enable_vectorcall", &EnableVectorcall, py::arg("type"),
             "Have calls of the objects of a subclass of OpBase go through its direct calls.");
}

}  // namespace graphffi::bindings

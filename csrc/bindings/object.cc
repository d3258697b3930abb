// SPDX-License-Identifier: Apache-2.0
#include "bindings/object.h"

#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "bindings/arrays/tensor.h"
#include "bindings/define.h"
#include "bindings/function.h"
#include "bindings/raised.h"

namespace graphffi::bindings {

namespace {

PyTypeObject* object_type = nullptr;

/// Python classes for type indices; kept for the rest of the process.
std::unordered_map<int32_t, PyTypeObject*>& Classes() {
  static auto* classes = new std::unordered_map<int32_t, PyTypeObject*>;
  return *classes;
}

PyObjectRef* AsRef(PyObject* self) { return reinterpret_cast<PyObjectRef*>(self); }

PyObject* RefuseNew(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError,
               "graphffi: %s: expected to be made by the runtime, got a direct call",
               type->tp_name);
  return nullptr;
}

Py_hash_t Hash(PyObject* self) {
  const auto bits = reinterpret_cast<uintptr_t>(AsRef(self)->handle);
  const auto hash = static_cast<Py_hash_t>((bits >> 4) | (bits << (8 * sizeof(bits) - 4)));
  return hash == -1 ? -2 : hash;
}

/// Equal means: the same object of the runtime.
PyObject* RichCompare(PyObject* self, PyObject* other, int op) {
  if ((op != Py_EQ && op != Py_NE) || PyObject_TypeCheck(other, object_type) == 0) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  const bool same = AsRef(self)->handle == AsRef(other)->handle;
  return PyBool_FromLong(same == (op == Py_EQ));
}

std::string TypeKey(TVMFFIObjectHandle object) {
  return std::string(TextOf(TVMFFIGetTypeInfo(TVMFFIObjectGetTypeIndex(object))->type_key));
}

PyObject* ReprObject(PyObject* self) {
  return PyUnicode_FromFormat("<%s %s at %p>", Py_TYPE(self)->tp_name,
                              TypeKey(AsRef(self)->handle).c_str(), AsRef(self)->handle);
}

PyMemberDef object_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyObjectRef, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot object_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(&RefuseNew)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocateObject)},
    {Py_tp_hash, reinterpret_cast<void*>(&Hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(&RichCompare)},
    {Py_tp_repr, reinterpret_cast<void*>(&ReprObject)},
    {Py_tp_members, object_members},
    {Py_tp_doc, const_cast<char*>("An object of the runtime.")},
    {0, nullptr},
};

PyType_Spec object_spec = {"graphffi.Object", sizeof(PyObjectRef), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, object_slots};

}  // namespace

PyTypeObject* ObjectType() { return object_type; }

PyTypeObject* MakeObjectSubtype(PyType_Spec* subtype) {
  py::tuple bases = py::make_tuple(py::handle(reinterpret_cast<PyObject*>(object_type)));
  PyObject* type = PyType_FromSpecWithBases(subtype, bases.ptr());
  if (type == nullptr) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

void DeallocateObject(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (AsRef(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  if (AsRef(self)->handle != nullptr) TVMFFIObjectDecRef(AsRef(self)->handle);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* WrapObjectAs(PyTypeObject* type, ObjectRef object) {
  PyObject* self = Check(type->tp_alloc(type, 0));
  AsRef(self)->handle = object.release();
  return self;
}

PyObject* WrapObject(ObjectRef object) {
  const int32_t type_index = TVMFFIObjectGetTypeIndex(object.get());
  if (type_index == kTVMFFIFunction) return WrapFunction(std::move(object));
  const auto found = Classes().find(type_index);
  return WrapObjectAs(found == Classes().end() ? object_type : found->second, std::move(object));
}

TVMFFIObjectHandle HandleOf(py::handle self, PyTypeObject* type) {
  if (PyObject_TypeCheck(self.ptr(), type) == 0) {
    Fail(PyExc_TypeError, std::string("graphffi: expected a ") + type->tp_name + ", got " +
                              Py_TYPE(self.ptr())->tp_name);
  }
  return AsRef(self.ptr())->handle;
}

void DefineObject(py::module_& module) {
  object_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&object_spec));
  if (object_type == nullptr) throw py::error_already_set();
  module.attr("Object") = py::handle(reinterpret_cast<PyObject*>(object_type));

  DefineMethod(
      object_type, "__chandle__",
      [](py::handle self) { return reinterpret_cast<uintptr_t>(HandleOf(self, object_type)); },
      "Return the address of the object; borrowed.");
  DefineProperty(
      object_type, "type_key", [](py::handle self) { return TypeKey(HandleOf(self, object_type)); },
      "The name of its type, such as ``ffi.Function``.");

  module.def(
      "register_class",
      [](int32_t type_index, py::type type) {
        auto* python_type = reinterpret_cast<PyTypeObject*>(type.ptr());
        if (PyType_IsSubtype(python_type, object_type) == 0) {
          Fail(PyExc_TypeError, "graphffi: register_class: expected a subclass of graphffi.Object");
        }
        type.inc_ref();
        Classes()[type_index] = python_type;
      },
      py::arg("type_index"), py::arg("type"), "Have objects of a type come back as `type`.");
}

}  // namespace graphffi::bindings

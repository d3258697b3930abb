// SPDX-License-Identifier: Apache-2.0
// Objects of the runtime as Python objects: the type graphffi.Object, base of Function, Tensor and
// Module.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include <utility>

#include "call/object_ref.h"
#include "call/value.h"

namespace graphffi::bindings {

namespace py = pybind11;

/// The value that `object` is; borrows from it.
inline TVMFFIAny ObjectView(TVMFFIObjectHandle object) {
  return ToAny(TVMFFIObjectGetTypeIndex(object), object);
}

/// The beginning of graphffi.Object and its subtypes.
struct PyObjectRef {
  PyObject_HEAD TVMFFIObjectHandle handle;  // NULL only while it is being made
  PyObject* weak_references;
};

/// The Python type graphffi.Object; *borrowed reference*.
PyTypeObject* ObjectType();
/// A subtype of Object with `slots`; to be kept for the rest of the process. \throws
/// py::error_already_set
PyTypeObject* MakeObjectSubtype(PyType_Spec* spec);
/// Frees what Object added: what a subtype's tp_dealloc ends with.
void DeallocateObject(PyObject* self);

/// *New reference* to a Python object around `object`, of the class registered for its type index.
PyObject* WrapObject(ObjectRef object);
/// An object of `type`, which is Object or a subtype without other state.
PyObject* WrapObjectAs(PyTypeObject* type, ObjectRef object);

/// The object of a graphffi.Object; *borrowed reference*. \throws PythonError (TypeError) for
/// anything else.
TVMFFIObjectHandle HandleOf(py::handle self, PyTypeObject* type);

/// Adds a method written with pybind11 to a type of ours.
template <typename Body, typename... Extra>
void DefineMethod(PyTypeObject* type, const char* name, Body&& body, const Extra&... extra) {
  py::handle owner(reinterpret_cast<PyObject*>(type));
  owner.attr(name) =
      py::cpp_function(std::forward<Body>(body), py::name(name), py::is_method(owner), extra...);
}

/// Adds a read-only property.
template <typename Body>
void DefineProperty(PyTypeObject* type, const char* name, Body&& body, const char* doc) {
  py::handle owner(reinterpret_cast<PyObject*>(type));
  py::cpp_function getter(std::forward<Body>(body), py::name(name), py::is_method(owner));
  py::handle property(reinterpret_cast<PyObject*>(&PyProperty_Type));
  owner.attr(name) = property(getter, py::none(), py::none(), py::str(doc));
}

/// The object of another package that uses this runtime, by its `__chandle__`; nothing for NULL.
/// \throws py::error_already_set
inline ObjectRef RetainForeign(py::handle value) {
  const auto address = value.attr("__chandle__")().cast<uintptr_t>();
  if (address == 0) return ObjectRef();
  return ObjectRef::Retain(reinterpret_cast<TVMFFIObjectHandle>(address));
}

/// An attribute; nothing where there is none, or where asking for it fails.
inline py::object OptAttribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(value);
}

/// An attribute of a Python module, kept for the rest of the process. \throws py::error_already_set
inline py::handle ImportImmortal(const char* module, const char* name) {
  return py::object(py::module_::import(module).attr(name)).release();
}

}  // namespace graphffi::bindings

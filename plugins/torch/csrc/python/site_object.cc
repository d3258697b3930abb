// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <memory>
#include <string>

#include "call/convert.h"
#include "call/value.h"
#include "gil/gil.h"
#include "python/define.h"
#include "python/raise.h"
#include "sites/call_site.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

/// `site(*inputs, *outputs, *open_ints)`.
struct SiteObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  CallSite* site;  // owned
  size_t num_fresh;
  bool release_gil;
};

bool UnpackTensor(PyObject* object, const at::Tensor** tensor) {
  if (THPVariable_CheckExact(object) || THPVariable_Check(object)) {
    *tensor = &THPVariable_Unpack(object);
    return true;
  }
  if (object == Py_None) {
    *tensor = nullptr;
    return true;
  }
  PyErr_Format(PyExc_TypeError, "graphffi: call site: expected a torch.Tensor or None, got %s",
               Py_TYPE(object)->tp_name);
  return false;
}

PyObject* WrongCount(Py_ssize_t expected, Py_ssize_t got) {
  PyErr_Format(PyExc_TypeError, "graphffi: call site: expected %zd arguments, got %zd", expected,
               got);
  return nullptr;
}

PyObject* CallSiteObject(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* object = reinterpret_cast<SiteObject*>(self);
  const CallSite& site = *object->site;
  const Py_ssize_t num_tensors = site.num_tensors(), expected = num_tensors + site.num_attributes();
  const Py_ssize_t got = PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (got != expected || kwnames != nullptr) return WrongCount(expected, got);
  c10::SmallVector<const at::Tensor*, 16> tensors;
  c10::SmallVector<TVMFFIAny, 16> ints;
  for (Py_ssize_t i = 0; i < num_tensors; ++i) {
    const at::Tensor* tensor = nullptr;
    if (!UnpackTensor(args[i], &tensor)) return nullptr;
    tensors.push_back(tensor);
  }
  for (Py_ssize_t i = num_tensors; i < expected; ++i) {
    ints.push_back(graphffi::ToAny(static_cast<int64_t>(PyLong_AsLongLong(args[i]))));
    if (ints.back().v_int64 == -1 && PyErr_Occurred()) return nullptr;
  }
  return TranslatedOrNull([&] {
    {
      const graphffi::GilRelease no_gil(object->release_gil);
      site.RunGenerated(tensors.data(), ints.data(), object->num_fresh);
    }
    return Py_NewRef(Py_None);
  });
}

void Deallocate(PyObject* self) {
  delete reinterpret_cast<SiteObject*>(self)->site;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* SiteType() {
  static PyTypeObject* const type = [] {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(SiteObject, vectorcall), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr}};
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, reinterpret_cast<void*>(&Deallocate)},
        {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
        {Py_tp_members, members},
        {Py_tp_doc, const_cast<char*>("A prepared call in a compiled graph.")},
        {0, nullptr}};
    static PyType_Spec spec = {
        "graphffi_torch._C.CallSite", sizeof(SiteObject), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

graphffi::KnownAttributes ToAttributes(const py::list& list) {
  graphffi::KnownAttributes attributes;
  for (const py::handle item : list) {
    if (item.is_none()) attributes.open.push_back(static_cast<int32_t>(attributes.values.size()));
    if (py::isinstance<py::str>(item)) {
      attributes.values.push_back(graphffi::MakeString(item.cast<std::string>()));
    } else if (py::isinstance<py::float_>(item)) {
      attributes.values.emplace_back(item.cast<double>());
    } else {
      attributes.values.emplace_back(item.is_none() ? 0 : item.cast<int64_t>());
    }
  }
  return attributes;
}

py::object MakeSite(const std::string& func, const std::string& plan, const std::string& digest,
                    const std::array<int32_t, 5>& counts, const py::list& attributes,
                    size_t num_fresh, bool release_gil) {
  const auto [inputs, outputs, ints, floats, strs] = counts;
  const graphffi::Counts tied{inputs, outputs, ints, floats, strs};
  const graphffi::KnownAttributes known = ToAttributes(attributes);
  auto site =
      Translated([&] { return std::make_unique<CallSite>(func, plan, tied, digest, &known); });
  PyTypeObject* type = SiteType();
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) throw py::error_already_set();
  reinterpret_cast<SiteObject*>(object)->vectorcall = &CallSiteObject;
  reinterpret_cast<SiteObject*>(object)->site = site.release();
  reinterpret_cast<SiteObject*>(object)->num_fresh = num_fresh;
  reinterpret_cast<SiteObject*>(object)->release_gil = release_gil;
  return py::reinterpret_steal<py::object>(object);
}

/// For names that the module lacks.
py::object MissingName(const std::string& name) {
  if (name.rfind("call_site_v", 0) != 0) {
    throw py::attribute_error("module 'graphffi_torch._C' has no attribute '" + name + "'");
  }
  // As of code that is gone from Inductor's cache: torch (2.10 to 2.15) compiles the graph again.
  PyErr_Format(PyExc_OSError,
               "graphffi: compiled code of another release calls '%s'; remove torch's "
               "cache of compiled code (TORCHINDUCTOR_CACHE_DIR)",
               name.c_str());
  throw py::error_already_set();
}

}  // namespace

void AddSiteObject(py::module_& module) {
  module.def("__getattr__", &MissingName);
  module.def("call_site_v4", &MakeSite, py::arg("func"), py::arg("plan"), py::arg("digest"),
             py::arg("counts"), py::arg("attributes"), py::arg("num_fresh") = 0,
             py::arg("release_gil") = py::module_::import("graphffi._core").attr("releases_gil"));
}

}  // namespace graphffi_torch

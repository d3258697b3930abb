// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  BoundSite* site;  // owned
  bool release_gil;
};

const at::Tensor& UndefinedTensor() {
  static const at::Tensor* const undefined = new at::Tensor();
  return *undefined;
}

bool UnpackTensor(PyObject* object, const at::Tensor** tensor) {
  if (THPVariable_CheckExact(object) || THPVariable_Check(object)) {
    *tensor = &THPVariable_Unpack(object);
    return true;
  }
  if (object == Py_None) {
    *tensor = &UndefinedTensor();
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
  const BoundSite& site = *object->site;
  const Py_ssize_t num_tensors = site.num_tensors(), expected = num_tensors + site.num_ints();
  const Py_ssize_t got = PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (got != expected || kwnames != nullptr) return WrongCount(expected, got);
  c10::SmallVector<const at::Tensor*, 16> tensors;
  c10::SmallVector<int64_t, 16> ints;
  for (Py_ssize_t i = 0; i < num_tensors; ++i) {
    const at::Tensor* tensor = nullptr;
    if (!UnpackTensor(args[i], &tensor)) return nullptr;
    tensors.push_back(tensor);
  }
  for (Py_ssize_t i = num_tensors; i < expected; ++i) {
    ints.push_back(PyLong_AsLongLong(args[i]));
    if (ints.back() == -1 && PyErr_Occurred()) return nullptr;
  }
  return TranslatedOrNull([&] {
    {
      const graphffi::GilRelease no_gil(object->release_gil);
      site.Run(tensors.data(), ints.data());
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

py::object MakeSite(const SiteArguments& arguments, int32_t num_fresh, bool release_gil) {
  auto site = std::make_unique<BoundSite>(arguments, num_fresh);
  PyTypeObject* type = SiteType();
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) throw py::error_already_set();
  reinterpret_cast<SiteObject*>(object)->vectorcall = &CallSiteObject;
  reinterpret_cast<SiteObject*>(object)->site = site.release();
  reinterpret_cast<SiteObject*>(object)->release_gil = release_gil;
  return py::reinterpret_steal<py::object>(object);
}

}  // namespace

void AddSiteObject(py::module_& module) {
  py::class_<SiteArguments>(module, "SiteArguments")
      .def(py::init([](std::string func, int32_t num_inputs, int32_t num_outputs, std::string plan,
                       std::vector<std::optional<int64_t>> ints, std::vector<double> floats,
                       std::vector<std::string> strs, std::string digest) {
             return SiteArguments{std::move(func), num_inputs,       num_outputs,
                                  std::move(plan), std::move(ints),  std::move(floats),
                                  std::move(strs), std::move(digest)};
           }),
           py::arg("func"), py::arg("num_inputs"), py::arg("num_outputs"), py::arg("plan"),
           py::arg("ints"), py::arg("floats"), py::arg("strs"), py::arg("digest"));
  module.def(
      "call_site_v3",
      [](const SiteArguments& arguments, int32_t num_fresh, bool release_gil) {
        return Translated([&] { return MakeSite(arguments, num_fresh, release_gil); });
      },
      py::arg("arguments"), py::arg("num_fresh") = 0,
      py::arg("release_gil") = py::module_::import("graphffi._core").attr("releases_gil"));
}

}  // namespace graphffi_torch

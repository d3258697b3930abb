// SPDX-License-Identifier: Apache-2.0
#include "python/direct_arguments.h"

#include <new>

namespace graphffi_torch {

bool DirectArguments::BindNames(PyObject* const* args, Py_ssize_t num_args, PyObject* opt_names) {
  const size_t count = op_.parameters.size();
  c10::SmallVectorImpl<PyObject*>& values = owned().values;
  values.resize(count, nullptr);
  for (Py_ssize_t i = 0; i < num_args; ++i) values[static_cast<size_t>(i)] = args[i];
  const Py_ssize_t num_names = opt_names == nullptr ? 0 : PyTuple_GET_SIZE(opt_names);
  for (Py_ssize_t i = 0; i < num_names; ++i) {
    PyObject** place = Find(PyTuple_GET_ITEM(opt_names, i));
    if (place == nullptr || *place != nullptr) return false;
    *place = args[num_args + i];
  }
  for (size_t i = 0; i < count; ++i) {
    if (values[i] != nullptr) continue;
    values[i] = op_.parameters[i].opt_default;
    if (values[i] == nullptr) return false;
  }
  values_ = values.data();
  return true;
}

PyObject** DirectArguments::Find(PyObject* name) {
  for (size_t i = 0; i < op_.parameters.size(); ++i) {
    if (op_.parameters[i].name == name) return &owned().values[i];
  }
  for (size_t i = 0; i < op_.parameters.size(); ++i) {
    if (PyUnicode_Compare(op_.parameters[i].name, name) == 0) return &owned().values[i];
  }
  return nullptr;
}

PyObject* DirectArguments::AsTuple(size_t i) {
  if (PyTuple_CheckExact(values_[i])) return values_[i];
  if (!PyList_CheckExact(values_[i])) return nullptr;
  for (const auto& [index, tuple] : owned().tuples) {
    if (index == i) return tuple;
  }
  PyObject* tuple = PyList_AsTuple(values_[i]);
  if (tuple == nullptr) throw std::bad_alloc();
  owned().tuples.emplace_back(i, tuple);
  return tuple;
}

}  // namespace graphffi_torch

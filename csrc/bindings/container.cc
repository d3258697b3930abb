// SPDX-License-Identifier: Apache-2.0
#include "bindings/container.h"

#include <tvm/ffi/container/map_base.h>
#include <tvm/ffi/container/shape.h>

#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/raised.h"
#include "bindings/value.h"
#include "call/value.h"

namespace graphffi::bindings {

namespace {

using tvm::ffi::Any;
using tvm::ffi::MapBaseObj;

constexpr char kConvertingResult[] = " while a result was converted";

/// The items of an Array or List, whatever the Python code does to it that a conversion runs.
std::vector<Any> ItemsOf(TVMFFIObjectHandle array) {
  const TVMFFISeqCell* cell = TVMFFISeqGetCellPtr(array);
  const auto* items = static_cast<const Any*>(cell->data);
  return std::vector<Any>(items, items + cell->size);
}

py::object ToObject(const Any& element, Framework opt_framework) {
  return py::reinterpret_steal<py::object>(ViewToPython(ToAny(element), opt_framework));
}

/// Arrays as tuples, which are keys of a dict.
py::object ToKey(const Any& key, Framework opt_framework) {
  if (key.type_index() != kTVMFFIArray) return ToObject(key, opt_framework);
  const RecursionGuard guard(kConvertingResult);
  py::list items;
  for (const Any& item : ItemsOf(ToAny(key).v_obj)) items.append(ToKey(item, opt_framework));
  return py::tuple(items);
}

using MapEntries = std::vector<MapBaseObj::KVType>;

/// A graphffi._values.map.Map, for keys that a dict takes for one.
PyObject* FromMapOfEqualKeys(const MapEntries& entries, Framework opt_framework) {
  static const py::handle type = ImportImmortal("graphffi._values.map", "Map");
  py::list pairs;
  for (const auto& [key, value] : entries) {
    pairs.append(py::make_tuple(ToKey(key, opt_framework), ToObject(value, opt_framework)));
  }
  return type(pairs).release().ptr();
}

}  // namespace

TVMFFIAny MakeShape(PyObject* tuple) {
  const Py_ssize_t ndim = PyTuple_GET_SIZE(tuple);
  int64_t* dims = nullptr;
  auto shape = tvm::ffi::detail::MakeEmptyShape(static_cast<size_t>(ndim), &dims);
  for (Py_ssize_t i = 0; i < ndim; ++i) {
    dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    if (dims[i] == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  }
  return ObjectView(
      tvm::ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(shape)));
}

PyObject* FromShape(TVMFFIObjectHandle shape) {
  static const py::handle type = ImportImmortal("graphffi._values.shape", "Shape");
  const TVMFFIShapeCell* cell = TVMFFIShapeGetCellPtr(shape);
  py::tuple dims(cell->size);
  for (size_t i = 0; i < cell->size; ++i) dims[i] = py::int_(cell->data[i]);
  return type(dims).release().ptr();
}

PyObject* FromArray(TVMFFIObjectHandle array, Framework opt_framework) {
  const RecursionGuard guard(kConvertingResult);
  const std::vector<Any> items = ItemsOf(array);
  py::list list(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* item = ViewToPython(ToAny(items[i]), opt_framework);
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), item);
  }
  return list.release().ptr();
}

PyObject* FromMap(TVMFFIObjectHandle map, Framework opt_framework) {
  const RecursionGuard guard(kConvertingResult);
  const auto& pairs = *static_cast<const MapBaseObj*>(static_cast<tvm::ffi::Object*>(map));
  const MapEntries entries(pairs.begin(), pairs.end());
  py::dict dict;
  for (const auto& [key, value] : entries) {
    const py::object python_key = ToKey(key, opt_framework);
    const py::object python_value = ToObject(value, opt_framework);
    if (PyDict_SetItem(dict.ptr(), python_key.ptr(), python_value.ptr()) != 0) throw PythonError();
  }
  if (dict.size() != entries.size()) return FromMapOfEqualKeys(entries, opt_framework);
  return dict.release().ptr();
}

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
#include "bindings/container.h"

#include <cstdlib>
#include <new>

#include "bindings/raised.h"
#include "bindings/value.h"
#include "callframe/global_function.h"

namespace graphffi::bindings {

namespace {

/// Maps have two layouts, told apart by the top bit of `slots`: a flat array of pairs, or blocks of
/// 16 linked items.
struct MapBody {
  const char* data;
  uint64_t size;
  uint64_t slots;
  void (*data_deleter)(void*);
  // Only in the second layout:
  uint32_t fib_shift;
  uint64_t list_head;
  uint64_t list_tail;
};
constexpr uint64_t kSmallMap = uint64_t{1} << 63;

struct Pair {
  TVMFFIAny key, value;
};

/// Second layout: a block is 16 bytes of hash metadata, then 16 of these.
struct LinkedPair {
  Pair pair;
  uint64_t previous, next;
};
constexpr uint64_t kBlockItems = 16;
constexpr uint64_t kBlockBytes = kBlockItems + kBlockItems * sizeof(LinkedPair);

const LinkedPair& ItemAt(const MapBody& map, uint64_t index) {
  const char* block = map.data + (index / kBlockItems) * kBlockBytes;
  return reinterpret_cast<const LinkedPair*>(block + kBlockItems)[index % kBlockItems];
}

/// Calls visit(pair) for each pair of a map, in order.
template <typename Visit>
void ForEachPair(const MapBody& map, Visit&& visit) {
  if ((map.slots & kSmallMap) != 0) {
    const auto* pairs = reinterpret_cast<const Pair*>(map.data);
    for (uint64_t i = 0; i < map.size; ++i) visit(pairs[i]);
    return;
  }
  uint64_t index = map.list_head;
  for (uint64_t i = 0; i < map.size; ++i) {
    const LinkedPair& item = ItemAt(map, index);
    visit(item.pair);
    index = item.next;
  }
}

py::object ToObject(const TVMFFIAny& element, Framework opt_framework) {
  return py::reinterpret_steal<py::object>(ElementToPython(element, opt_framework));
}

/// A graphffi._map.Map, for keys that a dict takes for one.
PyObject* FromMapOfEqualKeys(const MapBody& map, Framework opt_framework) {
  static const py::handle type = ImportImmortal("graphffi._map", "Map");
  py::list pairs;
  ForEachPair(map, [&](const Pair& pair) {
    pairs.append(
        py::make_tuple(ToObject(pair.key, opt_framework), ToObject(pair.value, opt_framework)));
  });
  return type(pairs).release().ptr();
}

struct ShapeObject {
  TVMFFIObject header;
  TVMFFIShapeCell cell;
};

void DeleteShape(void* self, int flags) {
  if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) != 0) std::free(self);
}

}  // namespace

TVMFFIAny MakeContainer(const char* name, const OwnedValues& values) {
  return CallGlobal(name, values.data(), values.size());
}

TVMFFIAny MakeShape(PyObject* tuple) {
  const Py_ssize_t ndim = PyTuple_GET_SIZE(tuple);
  const size_t bytes = sizeof(ShapeObject) + static_cast<size_t>(ndim) * sizeof(int64_t);
  auto* shape = static_cast<ShapeObject*>(std::malloc(bytes));
  if (shape == nullptr) throw std::bad_alloc();
  auto* dims = reinterpret_cast<int64_t*>(shape + 1);
  shape->header = {};
  shape->header.combined_ref_count = 1 | (uint64_t{1} << 32);
  shape->header.type_index = kTVMFFIShape;
  shape->header.deleter = &DeleteShape;
  shape->cell = {dims, static_cast<size_t>(ndim)};
  ObjectRef owner(shape);
  for (Py_ssize_t i = 0; i < ndim; ++i) {
    dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    if (dims[i] == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  }
  return ObjectView(owner.release());
}

PyObject* FromShape(TVMFFIObjectHandle shape) {
  static const py::handle type = ImportImmortal("graphffi._shape", "Shape");
  const TVMFFIShapeCell* cell = TVMFFIShapeGetCellPtr(shape);
  py::tuple dims(cell->size);
  for (size_t i = 0; i < cell->size; ++i) dims[i] = py::int_(cell->data[i]);
  return type(dims).release().ptr();
}

PyObject* FromArray(TVMFFIObjectHandle array, Framework opt_framework) {
  const TVMFFISeqCell* cell = TVMFFISeqGetCellPtr(array);
  py::list list(static_cast<size_t>(cell->size));
  for (int64_t i = 0; i < cell->size; ++i) {
    PyObject* element =
        ElementToPython(static_cast<const TVMFFIAny*>(cell->data)[i], opt_framework);
    PyList_SET_ITEM(list.ptr(), i, element);
  }
  return list.release().ptr();
}

PyObject* FromMap(TVMFFIObjectHandle map, Framework opt_framework) {
  const auto& body = *static_cast<const MapBody*>(TVMFFIObjectGetBody_(map));
  py::dict dict;
  ForEachPair(body, [&](const Pair& pair) {
    const py::object key = ToObject(pair.key, opt_framework);
    const py::object value = ToObject(pair.value, opt_framework);
    if (PyDict_SetItem(dict.ptr(), key.ptr(), value.ptr()) != 0) throw PythonError();
  });
  if (dict.size() != body.size) return FromMapOfEqualKeys(body, opt_framework);
  return dict.release().ptr();
}

}  // namespace graphffi::bindings

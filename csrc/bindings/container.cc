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

void SetItem(py::handle dict, const Pair& pair, Framework opt_framework) {
  const auto key = py::reinterpret_steal<py::object>(ElementToPython(pair.key, opt_framework));
  const auto value = py::reinterpret_steal<py::object>(ElementToPython(pair.value, opt_framework));
  if (PyDict_SetItem(dict.ptr(), key.ptr(), value.ptr()) != 0) throw PythonError();
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
  if ((body.slots & kSmallMap) != 0) {
    const auto* pairs = reinterpret_cast<const Pair*>(body.data);
    for (uint64_t i = 0; i < body.size; ++i) SetItem(dict, pairs[i], opt_framework);
  } else {
    uint64_t index = body.list_head;
    for (uint64_t i = 0; i < body.size; ++i) {
      const LinkedPair& item = ItemAt(body, index);
      SetItem(dict, item.pair, opt_framework);
      index = item.next;
    }
  }
  return dict.release().ptr();
}

}  // namespace graphffi::bindings

// SPDX-License-Identifier: Apache-2.0
// Global functions that make and read strings, shapes, arrays and lists. They are pointers rather
// than lambdas, so that those with one signature share its code.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/device.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <vector>

#include "contents.h"
#include "in_place.h"

namespace graphffi::runtime {
namespace {

using ffi::ArrayObj;
using ffi::ListObj;
using ffi::PackedArgs;

using List = InPlace<ffi::List<Any>>;

void MakeShape(PackedArgs args, Any* result) {
  int64_t* dims = nullptr;
  auto shape = ffi::detail::MakeEmptyShape(static_cast<size_t>(args.size()), &dims);
  for (int i = 0; i < args.size(); ++i) {
    if (args[i].type_index() != kTVMFFIInt) {
      TVM_FFI_THROW(ValueError) << "ffi.Shape: argument " << i << ": expected int, got "
                                << args[i].GetTypeKey();
    }
    dims[i] = args[i].cast<int64_t>();
  }
  *result = std::move(shape);
}

template <typename T>
void MakeSequence(PackedArgs args, Any* result) {
  auto sequence = T::Empty(static_cast<size_t>(args.size()));
  for (int i = 0; i < args.size(); ++i) sequence->Append(args[i]);
  *result = std::move(sequence);
}

template <typename T>
int64_t SequenceSize(const T* sequence) {
  return static_cast<int64_t>(sequence->size());
}

template <typename T>
Any SequenceGetItem(const T* sequence, int64_t index) {
  return sequence->at(index);
}

template <typename T>
bool SequenceContains(const T* sequence, const Any& wanted) {
  // An item's own equality may change a list.
  for (int64_t i = 0; i < SequenceSize(sequence); ++i) {
    const Any item = sequence->at(i);
    if (ffi::AnyEqual()(item, wanted)) return true;
  }
  return false;
}

void ListSetItem(List list, int64_t index, Any value) {
  list.GetListObj()->SetItem(index, std::move(value));
}
void ListAppend(List list, Any value) { list.push_back(std::move(value)); }
void ListErase(List list, int64_t index) { list.GetListObj()->erase(index); }
void ListReserve(List list, int64_t capacity) { list.reserve(capacity); }
void ListReverse(List list) {
  std::reverse(list.GetListObj()->MutableBegin(), list.GetListObj()->MutableEnd());
}
void ListClear(List list) { list.clear(); }

void ListEraseRange(List list, int64_t begin, int64_t end) { list.GetListObj()->erase(begin, end); }

void ListInsert(List list, int64_t index, Any value) {
  list.reserve(SequenceSize(list.GetListObj()) + 1);
  list.GetListObj()->insert(index, std::move(value));
}

Any ListPop(List list, int64_t index) {
  Any item = list[index];
  list.GetListObj()->erase(index);
  return item;
}

void ListReplaceSlice(List list, int64_t begin, int64_t end, List source) {
  const std::vector<Any> added(source.begin(), source.end());  // it may be the same list
  list.GetListObj()->erase(begin, end);
  list.insert(list.begin() + begin, added.begin(), added.end());
}

/// The first tensor in `value` that is not in host memory. Containers that hold themselves have no
/// end, so that there is a limit to how deep it looks.
bool FindDevice(const Any& value, int depth, DLDevice* device) {
  constexpr int kMaxDepth = 1000;
  if (depth > kMaxDepth) {
    TVM_FFI_THROW(RecursionError) << "ffi.ContainerFindFirstNonCPUDevice: expected at most "
                                  << kMaxDepth << " levels of nesting";
  }
  switch (value.type_index()) {
    case kTVMFFIDLTensorPtr:
    case kTVMFFITensor:
      *device = value.cast<DLTensor*>()->device;
      return device->device_type != kDLCPU;
    case kTVMFFIArray:
    case kTVMFFIList:
      for (const Any& item : Items(value)) {
        if (FindDevice(item, depth + 1, device)) return true;
      }
      return false;
    case kTVMFFIMap:
    case kTVMFFIDict:
      for (const auto& [key, item] : Entries(value)) {
        if (FindDevice(key, depth + 1, device) || FindDevice(item, depth + 1, device)) return true;
      }
      return false;
    default:
      return false;
  }
}

DLDevice FindFirstDevice(const Any& value) {
  DLDevice device;
  return FindDevice(value, 0, &device) ? device : DLDevice{kDLCPU, 0};
}

ffi::String GivenString(ffi::String text) { return text; }
ffi::Bytes GivenBytes(ffi::Bytes bytes) { return bytes; }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def("ffi.ContainerFindFirstNonCPUDevice", &FindFirstDevice)
      .def("ffi.String", &GivenString)
      .def("ffi.Bytes", &GivenBytes)
      .def_packed("ffi.Shape", &MakeShape)
      .def_packed("ffi.Array", &MakeSequence<ArrayObj>)
      .def("ffi.ArraySize", &SequenceSize<ArrayObj>)
      .def("ffi.ArrayGetItem", &SequenceGetItem<ArrayObj>)
      .def("ffi.ArrayContains", &SequenceContains<ArrayObj>)
      .def_packed("ffi.List", &MakeSequence<ListObj>)
      .def("ffi.ListSize", &SequenceSize<ListObj>)
      .def("ffi.ListGetItem", &SequenceGetItem<ListObj>)
      .def("ffi.ListContains", &SequenceContains<ListObj>)
      .def("ffi.ListSetItem", &ListSetItem)
      .def("ffi.ListAppend", &ListAppend)
      .def("ffi.ListInsert", &ListInsert)
      .def("ffi.ListErase", &ListErase)
      .def("ffi.ListEraseRange", &ListEraseRange)
      .def("ffi.ListPop", &ListPop)
      .def("ffi.ListReplaceSlice", &ListReplaceSlice)
      .def("ffi.ListReserve", &ListReserve)
      .def("ffi.ListReverse", &ListReverse)
      .def("ffi.ListClear", &ListClear);
}

}  // namespace
}  // namespace graphffi::runtime

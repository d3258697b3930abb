// SPDX-License-Identifier: Apache-2.0
// Built-in functions that make and read strings, shapes, arrays and lists.
#include <algorithm>
#include <vector>

#include "array.h"
#include "builtin.h"
#include "error.h"
#include "map.h"
#include "string_value.h"

namespace graphffi::runtime {
namespace {

std::vector<Any> OwnAll(const BuiltinArgs& args) {
  std::vector<Any> items;
  items.reserve(args.size());
  for (int32_t i = 0; i < args.size(); ++i) items.push_back(Own(args[i]));
  return items;
}

SeqObject* Array(const BuiltinArgs& args) {
  return reinterpret_cast<SeqObject*>(args.Object(0, kTVMFFIArray));
}

SeqObject* List(const BuiltinArgs& args, int32_t index = 0) {
  return reinterpret_cast<SeqObject*>(args.Object(index, kTVMFFIList));
}

/// An index of an existing item, or, where `size` is one more than there are, of the end.
int64_t Index(const BuiltinArgs& args, int32_t argument, int64_t size) {
  int64_t index = args.Int(argument);
  if (index >= 0 && index < size) return index;
  Throw("IndexError", args.function(), ": argument ", argument, ": expected an index below ", size,
        ", got ", index);
}

Any Contains(SeqObject* sequence, const TVMFFIAny& wanted) {
  return Any::Bool(std::any_of(sequence->items(), sequence->items() + sequence->size(),
                               [&](const Any& item) { return KeysEqual(item.view(), wanted); }));
}

/// Replaces items [begin, end) by others. What goes dies when the list is whole again.
void Splice(SeqObject* list, int64_t begin, int64_t end, std::vector<Any> added) {
  auto num_added = static_cast<int64_t>(added.size());
  int64_t size = list->size() - (end - begin) + num_added;
  if (size > list->cell.capacity) ReserveList(list, std::max(size, 2 * list->cell.capacity));
  Any* items = list->items();
  std::vector<Any> removed(std::make_move_iterator(items + begin),
                           std::make_move_iterator(items + end));
  for (int64_t i = list->size(); i < size; ++i) new (&items[i]) Any();
  if (num_added < end - begin) {
    std::move(items + end, items + list->size(), items + begin + num_added);
  } else {
    std::move_backward(items + end, items + list->size(), items + size);
  }
  std::move(added.begin(), added.end(), items + begin);
  for (int64_t i = size; i < list->size(); ++i) items[i].~Any();
  list->cell.size = size;
}

void ExpectRange(const BuiltinArgs& args, int64_t begin, int64_t end, int64_t size) {
  if (0 <= begin && begin <= end && end <= size) return;
  Throw("IndexError", args.function(), ": expected a range within ", size, " items, got ", begin,
        " to ", end);
}

Any MakeShapeOf(const BuiltinArgs& args) {
  std::vector<int64_t> extents;
  for (int32_t i = 0; i < args.size(); ++i) {
    if (args[i].type_index != kTVMFFIInt) {
      Throw("ValueError", args.function(), ": argument ", i, ": expected int");
    }
    extents.push_back(args.Int(i));
  }
  return Any::Object(MakeShape(extents));
}

Any ListInsert(const BuiltinArgs& args) {
  int64_t index = Index(args, 1, List(args)->size() + 1);
  Splice(List(args), index, index, {Own(args[2])});
  return {};
}

Any ListErase(const BuiltinArgs& args) {
  int64_t index = Index(args, 1, List(args)->size());
  Splice(List(args), index, index + 1, {});
  return {};
}

Any ListEraseRange(const BuiltinArgs& args) {
  ExpectRange(args, args.Int(1), args.Int(2), List(args)->size());
  Splice(List(args), args.Int(1), args.Int(2), {});
  return {};
}

Any ListPop(const BuiltinArgs& args) {
  int64_t index = Index(args, 1, List(args)->size());
  Any item = List(args)->items()[index];
  Splice(List(args), index, index + 1, {});
  return item;
}

Any ListReplaceSlice(const BuiltinArgs& args) {
  ExpectRange(args, args.Int(1), args.Int(2), List(args)->size());
  SeqObject* source = List(args, 3);
  std::vector<Any> added(source->items(), source->items() + source->size());
  Splice(List(args), args.Int(1), args.Int(2), std::move(added));
  return {};
}

Any ListSetItem(const BuiltinArgs& args) {
  Any value = Own(args[2]);
  std::swap(List(args)->items()[Index(args, 1, List(args)->size())], value);
  return {};
}

/// The first tensor in `value` that is not in host memory. Containers that hold themselves have no
/// end, so that there is a limit to how deep it looks.
bool FindDevice(const TVMFFIAny& value, int depth, DLDevice* device) {
  constexpr int kMaxDepth = 1000;
  if (depth > kMaxDepth) {
    Throw("RecursionError", "ffi.ContainerFindFirstNonCPUDevice: expected at most ", kMaxDepth,
          " levels of nesting");
  }
  switch (value.type_index) {
    case kTVMFFIDLTensorPtr:
      *device = static_cast<const DLTensor*>(value.v_ptr)->device;
      return device->device_type != kDLCPU;
    case kTVMFFITensor:
      *device = TVMFFITensorGetDLTensorPtr(value.v_obj)->device;
      return device->device_type != kDLCPU;
    case kTVMFFIArray:
    case kTVMFFIList: {
      auto* list = reinterpret_cast<SeqObject*>(value.v_obj);
      for (int64_t i = 0; i < list->size(); ++i) {
        if (FindDevice(list->items()[i].view(), depth + 1, device)) return true;
      }
      return false;
    }
    case kTVMFFIMap:
    case kTVMFFIDict: {
      auto* map = reinterpret_cast<MapObject*>(value.v_obj);
      for (uint64_t p = FirstPosition(map); p != kNoSlot; p = NextPosition(map, p)) {
        const MapItem item = ItemAt(map, p);
        if (FindDevice(*item.key, depth + 1, device)) return true;
        if (FindDevice(*item.value, depth + 1, device)) return true;
      }
      return false;
    }
    default:
      return false;
  }
}

Any FindFirstDevice(const BuiltinArgs& args) {
  TVMFFIAny result = {kTVMFFIDevice, {0}, {0}};
  if (!FindDevice(args[0], 0, &result.v_device)) result.v_device = {kDLCPU, 0};
  return Any::Steal(result);
}

constexpr Builtin kContainerBuiltins[] = {
    {"ffi.ContainerFindFirstNonCPUDevice", 1, "Device(Any)", FindFirstDevice},
    {"ffi.String", 1, "ffi.String(ffi.String)",
     [](const BuiltinArgs& args) { return MakeString(args.Text(0)); }},
    {"ffi.Bytes", 1, "ffi.Bytes(ffi.Bytes)",
     [](const BuiltinArgs& args) { return MakeBytes(args.Bytes(0)); }},
    {"ffi.Shape", -1, "ffi.Function", MakeShapeOf},
    {"ffi.Array", -1, "ffi.Function",
     [](const BuiltinArgs& args) { return Any::Object(MakeArray(OwnAll(args))); }},
    {"ffi.ArraySize", 1, "int(ffi.Array)",
     [](const BuiltinArgs& args) { return Any::Int(Array(args)->size()); }},
    {"ffi.ArrayGetItem", 2, "Any(ffi.Array,int)",
     [](const BuiltinArgs& args) {
       return Array(args)->items()[Index(args, 1, Array(args)->size())];
     }},
    {"ffi.ArrayContains", 2, "bool(ffi.Array,Any)",
     [](const BuiltinArgs& args) { return Contains(Array(args), args[1]); }},
    {"ffi.List", -1, "ffi.Function",
     [](const BuiltinArgs& args) { return Any::Object(MakeList(OwnAll(args))); }},
    {"ffi.ListSize", 1, "int(ffi.List)",
     [](const BuiltinArgs& args) { return Any::Int(List(args)->size()); }},
    {"ffi.ListGetItem", 2, "Any(ffi.List,int)",
     [](const BuiltinArgs& args) {
       return List(args)->items()[Index(args, 1, List(args)->size())];
     }},
    {"ffi.ListContains", 2, "bool(ffi.List,Any)",
     [](const BuiltinArgs& args) { return Contains(List(args), args[1]); }},
    {"ffi.ListSetItem", 3, "None(ffi.List[Any],int,Any)", ListSetItem},
    {"ffi.ListAppend", 2, "None(ffi.List[Any],Any)",
     [](const BuiltinArgs& args) {
       Splice(List(args), List(args)->size(), List(args)->size(), {Own(args[1])});
       return Any();
     }},
    {"ffi.ListInsert", 3, "None(ffi.List[Any],int,Any)", ListInsert},
    {"ffi.ListErase", 2, "None(ffi.List[Any],int)", ListErase},
    {"ffi.ListEraseRange", 3, "None(ffi.List[Any],int,int)", ListEraseRange},
    {"ffi.ListPop", 2, "Any(ffi.List[Any],int)", ListPop},
    {"ffi.ListReplaceSlice", 4, "None(ffi.List[Any],int,int,ffi.List[Any])", ListReplaceSlice},
    {"ffi.ListReserve", 2, "None(ffi.List[Any],int)",
     [](const BuiltinArgs& args) {
       ReserveList(List(args), args.Int(1));
       return Any();
     }},
    {"ffi.ListReverse", 1, "None(ffi.List[Any])",
     [](const BuiltinArgs& args) {
       std::reverse(List(args)->items(), List(args)->items() + List(args)->size());
       return Any();
     }},
    {"ffi.ListClear", 1, "None(ffi.List[Any])",
     [](const BuiltinArgs& args) {
       Splice(List(args), 0, List(args)->size(), {});
       return Any();
     }},
};

}  // namespace

BuiltinTable ContainerBuiltins() { return {kContainerBuiltins, std::size(kContainerBuiltins)}; }

}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// Built-in functions that make and read strings, shapes, arrays and lists.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map_base.h>
#include <tvm/ffi/container/shape.h>

#include <algorithm>

#include "from_headers.h"
#include "string_value.h"

namespace graphffi::runtime {
namespace {

using List = ffi::List<ffi::Any>;

/// The argument as a list that is the same object.
List ListOf(const BuiltinArgs& args, int32_t index = 0) {
  return List(ffi::ObjectPtr<ffi::Object>(ArgumentAs<ffi::ListObj>(args, index)));
}

/// An index of an existing item, or, where `size` is one more than there are, of the end.
int64_t Index(const BuiltinArgs& args, int32_t argument, size_t size) {
  const int64_t index = args.Int(argument);
  if (index >= 0 && index < static_cast<int64_t>(size)) return index;
  Throw("IndexError", args.function(), ": argument ", argument, ": expected an index below ", size,
        ", got ", index);
}

void ExpectRange(const BuiltinArgs& args, size_t size) {
  const int64_t begin = args.Int(1), end = args.Int(2);
  if (0 <= begin && begin <= end && end <= static_cast<int64_t>(size)) return;
  Throw("IndexError", args.function(), ": expected a range within ", size, " items, got ", begin,
        " to ", end);
}

Any MakeShape(const BuiltinArgs& args) {
  int64_t* extents = nullptr;
  auto shape = ffi::detail::MakeEmptyShape(static_cast<size_t>(args.size()), &extents);
  for (int32_t i = 0; i < args.size(); ++i) {
    if (args[i].type_index != kTVMFFIInt) {
      Throw("ValueError", args.function(), ": argument ", i, ": expected int");
    }
    extents[i] = args.Int(i);
  }
  return Any::Object(FromHeaders(std::move(shape)));
}

/// Of a class for sequences.
template <typename T>
struct SequenceFunctions {
  static Any Make(const BuiltinArgs& args) {
    auto sequence = T::Empty(static_cast<size_t>(args.size()));
    for (int32_t i = 0; i < args.size(); ++i) sequence->Append(ArgumentAt(args, i));
    return Any::Object(FromHeaders(std::move(sequence)));
  }
  static Any Size(const BuiltinArgs& args) {
    return Any::Int(static_cast<int64_t>(ArgumentAs<T>(args)->size()));
  }
  static Any GetItem(const BuiltinArgs& args) {
    const auto sequence = ArgumentAs<T>(args);
    return FromHeaders(sequence->at(Index(args, 1, sequence->size())));
  }
  static Any Contains(const BuiltinArgs& args) {
    const auto sequence = ArgumentAs<T>(args);
    const ffi::Any wanted = ArgumentAt(args, 1);
    return WithHeaders([&] {
      // An item's own equality may change a list.
      for (size_t i = 0; i < sequence->size(); ++i) {
        const ffi::Any item = (*sequence)[static_cast<int64_t>(i)];
        if (ffi::AnyEqual()(item, wanted)) return Any::Bool(true);
      }
      return Any::Bool(false);
    });
  }
};

using ArrayF = SequenceFunctions<ffi::ArrayObj>;
using ListF = SequenceFunctions<ffi::ListObj>;

Any ListSetItem(const BuiltinArgs& args) {
  List list = ListOf(args);
  list.Set(Index(args, 1, list.size()), ArgumentAt(args, 2));
  return {};
}

Any ListAppend(const BuiltinArgs& args) {
  ListOf(args).push_back(ArgumentAt(args, 1));
  return {};
}

Any ListInsert(const BuiltinArgs& args) {
  List list = ListOf(args);
  list.insert(list.begin() + Index(args, 1, list.size() + 1), ArgumentAt(args, 2));
  return {};
}

Any ListErase(const BuiltinArgs& args) {
  List list = ListOf(args);
  list.erase(list.begin() + Index(args, 1, list.size()));
  return {};
}

Any ListEraseRange(const BuiltinArgs& args) {
  List list = ListOf(args);
  ExpectRange(args, list.size());
  list.erase(list.begin() + args.Int(1), list.begin() + args.Int(2));
  return {};
}

Any ListPop(const BuiltinArgs& args) {
  List list = ListOf(args);
  const int64_t index = Index(args, 1, list.size());
  ffi::Any item = list[index];
  list.erase(list.begin() + index);
  return FromHeaders(std::move(item));
}

Any ListReplaceSlice(const BuiltinArgs& args) {
  List list = ListOf(args);
  const List source = ListOf(args, 3);
  ExpectRange(args, list.size());
  const auto num_added = static_cast<int64_t>(source.size());
  list.insert(list.begin() + args.Int(1), source.begin(), source.end());
  list.erase(list.begin() + args.Int(1) + num_added, list.begin() + args.Int(2) + num_added);
  return {};
}

Any ListReserve(const BuiltinArgs& args) {
  ListOf(args).reserve(args.Int(1));
  return {};
}

Any ListReverse(const BuiltinArgs& args) {
  const auto list = ArgumentAs<ffi::ListObj>(args);
  std::reverse(list->MutableBegin(), list->MutableEnd());
  return {};
}

Any ListClear(const BuiltinArgs& args) {
  ListOf(args).clear();
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
  const auto find = [&](const ffi::Any& item) {
    return FindDevice(ViewOf(item), depth + 1, device);
  };
  switch (value.type_index) {
    case kTVMFFIDLTensorPtr:
      *device = static_cast<const DLTensor*>(value.v_ptr)->device;
      return device->device_type != kDLCPU;
    case kTVMFFITensor:
      *device = TVMFFITensorGetDLTensorPtr(value.v_obj)->device;
      return device->device_type != kDLCPU;
    case kTVMFFIArray:
    case kTVMFFIList: {
      const auto& items = *As<ffi::SeqBaseObj>(value.v_obj);
      return std::any_of(items.begin(), items.end(), find);
    }
    case kTVMFFIMap:
    case kTVMFFIDict: {
      for (const auto& [key, item] : *As<ffi::MapBaseObj>(value.v_obj)) {
        if (find(key) || find(item)) return true;
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
    {"ffi.Shape", -1, "ffi.Function", MakeShape},
    {"ffi.Array", -1, "ffi.Function", ArrayF::Make},
    {"ffi.ArraySize", 1, "int(ffi.Array)", ArrayF::Size},
    {"ffi.ArrayGetItem", 2, "Any(ffi.Array,int)", ArrayF::GetItem},
    {"ffi.ArrayContains", 2, "bool(ffi.Array,Any)", ArrayF::Contains},
    {"ffi.List", -1, "ffi.Function", ListF::Make},
    {"ffi.ListSize", 1, "int(ffi.List)", ListF::Size},
    {"ffi.ListGetItem", 2, "Any(ffi.List,int)", ListF::GetItem},
    {"ffi.ListContains", 2, "bool(ffi.List,Any)", ListF::Contains},
    {"ffi.ListSetItem", 3, "None(ffi.List[Any],int,Any)", ListSetItem},
    {"ffi.ListAppend", 2, "None(ffi.List[Any],Any)", ListAppend},
    {"ffi.ListInsert", 3, "None(ffi.List[Any],int,Any)", ListInsert},
    {"ffi.ListErase", 2, "None(ffi.List[Any],int)", ListErase},
    {"ffi.ListEraseRange", 3, "None(ffi.List[Any],int,int)", ListEraseRange},
    {"ffi.ListPop", 2, "Any(ffi.List[Any],int)", ListPop},
    {"ffi.ListReplaceSlice", 4, "None(ffi.List[Any],int,int,ffi.List[Any])", ListReplaceSlice},
    {"ffi.ListReserve", 2, "None(ffi.List[Any],int)", ListReserve},
    {"ffi.ListReverse", 1, "None(ffi.List[Any])", ListReverse},
    {"ffi.ListClear", 1, "None(ffi.List[Any])", ListClear},
};

}  // namespace

BuiltinTable ContainerBuiltins() { return {kContainerBuiltins, std::size(kContainerBuiltins)}; }

}  // namespace graphffi::runtime

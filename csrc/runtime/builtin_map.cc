// SPDX-License-Identifier: Apache-2.0
// Built-in functions that make and read maps and dicts. Each exists once per kind of map.
#include <iterator>

#include "builtin.h"
#include "error.h"
#include "function.h"
#include "map.h"

namespace graphffi::runtime {
namespace {

/// An object without content, which is known by its identity.
struct Marker {
  TVMFFIObject header;
};

/// Given by ffi.MapGetItemOrMissing for a missing key: always the same object.
Any MissingItem() {
  static const Any missing = Any::Object(MakeObject<Marker>(kTVMFFIObject, 0));
  return missing;
}

/// Stands between positional and keyword arguments of a call from Python: always the same object.
Any KeywordMarker() {
  static const Any marker = Any::Object(MakeObject<Marker>(kTVMFFIObject, 0));
  return marker;
}

/// Walks a map: 0 gives the key, 1 the value, 2 steps on and tells whether there is an item.
struct MapIterator {
  ObjectPtr<MapObject> map;
  uint64_t position;

  static Any Run(MapIterator* self, const BuiltinArgs& args) {
    const MapObject* map = self->map.get();
    if (args.Int(0) == 0 || args.Int(0) == 1) {
      if (!HasItemAt(map, self->position)) {
        Throw("IndexError", args.function(), ": the iterator is at the end, or its item is gone");
      }
      const MapItem item = ItemAt(map, self->position);
      return Own(args.Int(0) == 0 ? *item.key : *item.value);
    }
    self->position = NextPosition(map, self->position);
    return Any::Bool(self->position != kNoSlot);
  }

  static int Call(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
    return Guard([&] {
      BuiltinArgs view("map iterator", args, num_args);
      view.ExpectSize(1, 1);
      *result = Run(static_cast<MapIterator*>(self), view).Release();
    });
  }
};

template <int32_t kType>
struct MapFunctions {
  static MapObject* Map(const BuiltinArgs& args) {
    return reinterpret_cast<MapObject*>(args.Object(0, kType));
  }

  static Any Make(const BuiltinArgs& args) {
    if (args.size() % 2 != 0) {
      Throw("TypeError", args.function(), ": arguments: expected pairs, got ", args.size());
    }
    ObjectPtr<MapObject> map = MakeMap(kType);
    for (int32_t i = 0; i < args.size(); i += 2) {
      SetInMap(map.get(), Own(args[i]), Own(args[i + 1]));
    }
    return Any::Object(std::move(map));
  }

  static Any Size(const BuiltinArgs& args) {
    return Any::Int(static_cast<int64_t>(SizeOfMap(Map(args))));
  }

  static Any Count(const BuiltinArgs& args) {
    return Any::Int(FindInMap(Map(args), args[1]) == nullptr ? 0 : 1);
  }

  static Any GetItem(const BuiltinArgs& args) {
    if (const TVMFFIAny* value = FindInMap(Map(args), args[1])) return Own(*value);
    Throw("KeyError", args.function(), ": no such key");
  }

  static Any GetItemOrMissing(const BuiltinArgs& args) {
    if (const TVMFFIAny* value = FindInMap(Map(args), args[1])) return Own(*value);
    return MissingItem();
  }

  static Any ForwardIterator(const BuiltinArgs& args) {
    auto* iterator =
        new MapIterator{ObjectPtr<MapObject>::Share(Map(args)), FirstPosition(Map(args))};
    return Any::Object(MakeFunction(iterator, MapIterator::Call,
                                    [](void* self) { delete static_cast<MapIterator*>(self); }));
  }
};

using MapF = MapFunctions<kTVMFFIMap>;
using DictF = MapFunctions<kTVMFFIDict>;

Any DictSetItem(const BuiltinArgs& args) {
  SetInMap(DictF::Map(args), Own(args[1]), Own(args[2]));
  return {};
}

Any DictErase(const BuiltinArgs& args) {
  EraseFromMap(DictF::Map(args), args[1]);
  return {};
}

Any DictClear(const BuiltinArgs& args) {
  ClearMap(DictF::Map(args));
  return {};
}

constexpr Builtin kMapBuiltins[] = {
    {"ffi.Map", -1, "ffi.Function", MapF::Make},
    {"ffi.MapSize", 1, "int(ffi.Map)", MapF::Size},
    {"ffi.MapCount", 2, "int(ffi.Map,Any)", MapF::Count},
    {"ffi.MapGetItem", 2, "Any(ffi.Map,Any)", MapF::GetItem},
    {"ffi.MapGetItemOrMissing", 2, "Any(ffi.Map,Any)", MapF::GetItemOrMissing},
    {"ffi.MapForwardIterFunctor", 1, "ffi.Function(ffi.Map)", MapF::ForwardIterator},
    {"ffi.Dict", -1, "ffi.Function", DictF::Make},
    {"ffi.DictSize", 1, "int(ffi.Dict)", DictF::Size},
    {"ffi.DictCount", 2, "int(ffi.Dict,Any)", DictF::Count},
    {"ffi.DictGetItem", 2, "Any(ffi.Dict,Any)", DictF::GetItem},
    {"ffi.DictGetItemOrMissing", 2, "Any(ffi.Dict,Any)", DictF::GetItemOrMissing},
    {"ffi.DictForwardIterFunctor", 1, "ffi.Function(ffi.Dict)", DictF::ForwardIterator},
    {"ffi.DictSetItem", 3, "None(ffi.Dict[Any,Any],Any,Any)", DictSetItem},
    {"ffi.DictErase", 2, "None(ffi.Dict[Any,Any],Any)", DictErase},
    {"ffi.DictClear", 1, "None(ffi.Dict[Any,Any])", DictClear},
    {"ffi.GetInvalidObject", 0, "ffi.Object()", [](const BuiltinArgs&) { return MissingItem(); }},
    {"ffi.GetKwargsObject", 0, "ffi.Object()", [](const BuiltinArgs&) { return KeywordMarker(); }},
};

}  // namespace

BuiltinTable MapBuiltins() { return {kMapBuiltins, std::size(kMapBuiltins)}; }

}  // namespace graphffi::runtime

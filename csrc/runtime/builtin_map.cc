// SPDX-License-Identifier: Apache-2.0
// Built-in functions that make and read maps and dicts. Each exists once per kind of map.
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/map.h>

#include <iterator>

#include "from_headers.h"
#include "function.h"

namespace graphffi::runtime {
namespace {

using ffi::MapBaseObj;

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

/// Walks a map: 0 gives the key, 1 the value, 2 steps on and tells whether there is an item. The
/// map may change meanwhile.
struct MapIterator {
  ffi::ObjectPtr<MapBaseObj> map;
  uint64_t position = map->empty() ? MapBaseObj::kNone : map->begin().index();

  static Any Run(MapIterator* self, const BuiltinArgs& args) {
    const MapBaseObj& map = *self->map;
    const MapBaseObj::iterator at(&map, self->position);
    const bool has_item = map.HasPairAt(self->position);
    if (args.Int(0) == 0 || args.Int(0) == 1) {
      if (!has_item) {
        Throw("IndexError", args.function(), ": the iterator is at the end, or its item is gone");
      }
      return FromHeaders(args.Int(0) == 0 ? at->first : at->second);
    }
    const uint64_t next = has_item ? std::next(at).index() : MapBaseObj::kNone;
    self->position = map.HasPairAt(next) ? next : MapBaseObj::kNone;
    return Any::Bool(self->position != MapBaseObj::kNone);
  }

  static int Call(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
    return Guard([&] {
      BuiltinArgs view("map iterator", args, num_args);
      view.ExpectSize(1, 1);
      *result = Run(static_cast<MapIterator*>(self), view).Release();
    });
  }
};

/// Of a class for maps. Keys may have a hash and an equality of their own, which may throw.
template <typename T>
struct MapFunctions {
  static Any Make(const BuiltinArgs& args) {
    if (args.size() % 2 != 0) {
      Throw("TypeError", args.function(), ": arguments: expected pairs, got ", args.size());
    }
    return WithHeaders([&] {
      auto map = MapBaseObj::Empty<T>();
      for (int32_t i = 0; i < args.size(); i += 2) {
        map->InsertOrAssign(ArgumentAt(args, i), ArgumentAt(args, i + 1));
      }
      return Any::Object(FromHeaders(std::move(map)));
    });
  }

  static Any Size(const BuiltinArgs& args) {
    return Any::Int(static_cast<int64_t>(ArgumentAs<T>(args)->size()));
  }

  /// The value of the key that is argument 1, or `otherwise()`.
  template <typename Otherwise>
  static Any Find(const BuiltinArgs& args, Otherwise&& otherwise) {
    const auto map = ArgumentAs<T>(args);
    return WithHeaders([&] {
      const auto found = map->find(ArgumentAt(args, 1));
      return found == map->end() ? otherwise() : FromHeaders(found->second);
    });
  }

  static Any Count(const BuiltinArgs& args) {
    const auto map = ArgumentAs<T>(args);
    return WithHeaders(
        [&] { return Any::Int(static_cast<int64_t>(map->count(ArgumentAt(args, 1)))); });
  }

  static Any GetItem(const BuiltinArgs& args) {
    return Find(args, [&]() -> Any { Throw("KeyError", args.function(), ": no such key"); });
  }

  static Any GetItemOrMissing(const BuiltinArgs& args) { return Find(args, MissingItem); }

  static Any ForwardIterator(const BuiltinArgs& args) {
    auto* iterator = new MapIterator{ArgumentAs<T>(args)};
    return Any::Object(MakeFunction(iterator, MapIterator::Call,
                                    [](void* self) { delete static_cast<MapIterator*>(self); }));
  }
};

using MapF = MapFunctions<ffi::MapObj>;
using DictF = MapFunctions<ffi::DictObj>;

Any DictSetItem(const BuiltinArgs& args) {
  const auto dict = ArgumentAs<ffi::DictObj>(args);
  WithHeaders([&] { dict->InsertOrAssign(ArgumentAt(args, 1), ArgumentAt(args, 2)); });
  return {};
}

Any DictErase(const BuiltinArgs& args) {
  const auto dict = ArgumentAs<ffi::DictObj>(args);
  WithHeaders([&] { dict->Erase(ArgumentAt(args, 1)); });
  return {};
}

Any DictClear(const BuiltinArgs& args) {
  ArgumentAs<ffi::DictObj>(args)->Clear();
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

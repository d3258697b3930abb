// SPDX-License-Identifier: Apache-2.0
// Global functions that make and read maps and dicts. Each exists once per kind of map.
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/reflection/registry.h>

#include <iterator>

#include "in_place.h"

namespace graphffi::runtime {
namespace {

using ffi::DictObj;
using ffi::MapBaseObj;
using ffi::MapObj;
using Marker = ffi::ObjectRef;

/// Given by ffi.MapGetItemOrMissing for a missing key: always the same object.
Marker MissingItem() {
  static const auto* missing = new Marker(ffi::make_object<Object>());
  return *missing;
}

/// Stands between positional and keyword arguments of a call from Python: always the same object.
Marker KeywordMarker() {
  static const auto* marker = new Marker(ffi::make_object<Object>());
  return *marker;
}

/// Walks a map: 0 gives the key, 1 the value, 2 steps on and tells whether there is an item. The
/// map may change meanwhile.
struct MapIterator {
  ffi::ObjectPtr<MapBaseObj> map;
  uint64_t position = map->empty() ? MapBaseObj::kNone : map->begin().index();

  Any operator()(int64_t command) {
    const MapBaseObj::iterator at(map.get(), position);
    const bool has_item = map->HasPairAt(position);
    if (command == 0 || command == 1) {
      if (!has_item) {
        TVM_FFI_THROW(IndexError) << "map iterator: it is at the end, or its item is gone";
      }
      return command == 0 ? at->first : at->second;
    }
    const uint64_t next = has_item ? std::next(at).index() : MapBaseObj::kNone;
    position = map->HasPairAt(next) ? next : MapBaseObj::kNone;
    return position != MapBaseObj::kNone;
  }
};

template <typename T>
void MakeMap(ffi::PackedArgs args, Any* result) {
  if (args.size() % 2 != 0) {
    TVM_FFI_THROW(TypeError) << T::_type_key << ": arguments: expected pairs, got " << args.size();
  }
  auto map = MapBaseObj::Empty<T>();
  for (int i = 0; i < args.size(); i += 2) map->InsertOrAssign(args[i], args[i + 1]);
  *result = std::move(map);
}

template <typename T>
int64_t MapSize(const T* map) {
  return static_cast<int64_t>(map->size());
}

template <typename T>
int64_t MapCount(const T* map, const Any& key) {
  return static_cast<int64_t>(map->count(key));
}

template <typename T>
Any MapGetItem(const T* map, const Any& key) {
  return map->at(key);
}

template <typename T>
Any MapGetItemOrMissing(const T* map, const Any& key) {
  const auto found = map->find(key);
  return found == map->end() ? Any(MissingItem()) : found->second;
}

template <typename T>
ffi::Function ForwardIterator(const T* map) {
  return ffi::Function::FromTyped(
      MapIterator{ffi::detail::ObjectUnsafe::ObjectPtrFromUnowned<MapBaseObj>(const_cast<T*>(map))},
      "map iterator");
}

using Dict = InPlace<ffi::Dict<Any, Any>>;

void DictSetItem(Dict dict, const Any& key, const Any& value) { dict.Set(key, value); }
void DictErase(Dict dict, const Any& key) { dict.erase(key); }
void DictClear(Dict dict) { dict.clear(); }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def_packed("ffi.Map", &MakeMap<MapObj>)
      .def("ffi.MapSize", &MapSize<MapObj>)
      .def("ffi.MapCount", &MapCount<MapObj>)
      .def("ffi.MapGetItem", &MapGetItem<MapObj>)
      .def("ffi.MapGetItemOrMissing", &MapGetItemOrMissing<MapObj>)
      .def("ffi.MapForwardIterFunctor", &ForwardIterator<MapObj>)
      .def_packed("ffi.Dict", &MakeMap<DictObj>)
      .def("ffi.DictSize", &MapSize<DictObj>)
      .def("ffi.DictCount", &MapCount<DictObj>)
      .def("ffi.DictGetItem", &MapGetItem<DictObj>)
      .def("ffi.DictGetItemOrMissing", &MapGetItemOrMissing<DictObj>)
      .def("ffi.DictForwardIterFunctor", &ForwardIterator<DictObj>)
      .def("ffi.DictSetItem", &DictSetItem)
      .def("ffi.DictErase", &DictErase)
      .def("ffi.DictClear", &DictClear)
      .def("ffi.GetInvalidObject", &MissingItem)
      .def("ffi.GetKwargsObject", &KeywordMarker);
}

}  // namespace
}  // namespace graphffi::runtime

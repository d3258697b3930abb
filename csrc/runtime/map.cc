// SPDX-License-Identifier: Apache-2.0
#include "map.h"

#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/map.h>

#include <utility>

#include "error.h"

namespace graphffi::runtime {
namespace {

namespace ffi = tvm::ffi;
using ffi::MapBaseObj;
using ffi::detail::AnyUnsafe;

MapBaseObj* Body(const MapObject* map) {
  return static_cast<MapBaseObj*>(
      reinterpret_cast<ffi::Object*>(const_cast<TVMFFIObject*>(&map->header)));
}

template <typename T>
ObjectPtr<MapObject> ToHandle(ffi::ObjectPtr<T> map) {
  return ObjectPtr<MapObject>::Steal(
      ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(map)));
}

ffi::Any Take(Any value) { return AnyUnsafe::MoveTVMFFIAnyToAny(value.Release()); }
ffi::Any Own(const TVMFFIAny& view) { return Take(Any::FromView(view)); }
const TVMFFIAny* ViewOf(const ffi::Any& value) { return AnyUnsafe::TVMFFIAnyPtrFromAny(value); }

/// Errors of the headers' kind, which only the keys' own hash and equality throw.
template <typename F>
auto Foreign(F&& body) {
  try {
    return body();
  } catch (const ffi::Error& error) {
    TVMFFIErrorSetRaised(const_cast<ffi::ErrorObj*>(error.get()));
    throw ForeignError{-1};
  }
}

}  // namespace

ObjectPtr<MapObject> MakeMap(int32_t type_index) {
  return type_index == kTVMFFIMap ? ToHandle(MapBaseObj::Empty<ffi::MapObj>())
                                  : ToHandle(MapBaseObj::Empty<ffi::DictObj>());
}

ObjectPtr<MapObject> CopyMap(const MapObject* map) {
  return Foreign([&] {
    if (map->header.type_index == kTVMFFIDict) {
      return ToHandle(MapBaseObj::CopyFrom<ffi::DictObj>(Body(map)));
    }
    return ToHandle(MapBaseObj::CopyFrom<ffi::MapObj>(Body(map)));
  });
}

uint64_t SizeOfMap(const MapObject* map) { return Body(map)->size(); }

const TVMFFIAny* FindInMap(const MapObject* map, const TVMFFIAny& key) {
  return Foreign([&]() -> const TVMFFIAny* {
    const MapBaseObj::iterator found = Body(map)->find(Own(key));
    return found == Body(map)->end() ? nullptr : ViewOf(found->second);
  });
}

void SetInMap(MapObject* map, Any key, Any value) {
  Foreign([&] { Body(map)->InsertOrAssign(Take(std::move(key)), Take(std::move(value))); });
}

bool EraseFromMap(MapObject* map, const TVMFFIAny& key) {
  return Foreign([&] { return Body(map)->Erase(Own(key)); });
}

void ClearMap(MapObject* map) { Body(map)->Clear(); }

bool KeysEqual(const TVMFFIAny& a, const TVMFFIAny& b) {
  return Foreign([&] { return ffi::AnyEqual()(Own(a), Own(b)); });
}

uint64_t FirstPosition(const MapObject* map) {
  return Body(map)->empty() ? kNoSlot : Body(map)->begin().index();
}

uint64_t NextPosition(const MapObject* map, uint64_t position) {
  if (!HasItemAt(map, position)) return kNoSlot;
  const uint64_t next = (++MapBaseObj::iterator(Body(map), position)).index();
  return HasItemAt(map, next) ? next : kNoSlot;
}

bool HasItemAt(const MapObject* map, uint64_t position) { return Body(map)->HasPairAt(position); }

MapItem ItemAt(const MapObject* map, uint64_t position) {
  const MapBaseObj::KVType& pair = *MapBaseObj::iterator(Body(map), position);
  return {ViewOf(pair.first), ViewOf(pair.second)};
}

}  // namespace graphffi::runtime

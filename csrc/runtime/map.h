// SPDX-License-Identifier: Apache-2.0
// Maps and dicts. Code in other libraries reads, and writes where it may, the same memory: layout,
// hash and the way from key to slot are part of the ABI.
#pragma once

#include "any.h"

namespace graphffi::runtime {

/// The content of every position that is no position.
constexpr uint64_t kNoSlot = ~uint64_t{0};

struct MapItem {
  Any key;
  Any value;
};

/// Small maps (the top bit of `slots` is set) have up to 4 items in insertion order, in the object
/// itself from `fib_shift` on. Others are hash tables whose items are linked in insertion order. A
/// small map may become a table in place.
struct MapCell {
  void* data;
  uint64_t size;
  uint64_t slots;
  void (*data_deleter)(void* data);
  uint32_t fib_shift;
  uint64_t first;
  uint64_t last;
};

struct MapObject {
  TVMFFIObject header;
  MapCell cell;

  ~MapObject();
  uint64_t size() const { return cell.size; }
};

/// An empty Map or Dict.
ObjectPtr<MapObject> MakeMap(int32_t type_index);
/// Same items in the same order.
ObjectPtr<MapObject> CopyMap(const MapObject* map);

/// The value, borrowed until the map changes, or NULL. \throws ForeignError from a type's own
/// equality
Any* FindInMap(const MapObject* map, const TVMFFIAny& key);
void SetInMap(MapObject* map, Any key, Any value);
/// False if there was no such key.
bool EraseFromMap(MapObject* map, const TVMFFIAny& key);
void ClearMap(MapObject* map);

/// Positions in insertion order; kNoSlot behind the last one.
uint64_t FirstPosition(const MapObject* map);
uint64_t NextPosition(const MapObject* map, uint64_t position);
MapItem& ItemAt(const MapObject* map, uint64_t position);

}  // namespace graphffi::runtime

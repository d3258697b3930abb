// SPDX-License-Identifier: Apache-2.0
// Maps and dicts: the class of the kernel-author headers, for code that is written without them.
#pragma once

#include "any.h"

namespace graphffi::runtime {

/// The content of every position that is no position.
constexpr uint64_t kNoSlot = ~uint64_t{0};

struct MapItem {
  const TVMFFIAny* key;
  const TVMFFIAny* value;
};

struct MapObject {
  TVMFFIObject header;
};

/// An empty Map or Dict.
ObjectPtr<MapObject> MakeMap(int32_t type_index);
/// A Map or Dict, as that one is, with the same items in the same order.
ObjectPtr<MapObject> CopyMap(const MapObject* map);

uint64_t SizeOfMap(const MapObject* map);
/// The value, borrowed until the map changes, or NULL. \throws ForeignError from a type's own
/// equality
const TVMFFIAny* FindInMap(const MapObject* map, const TVMFFIAny& key);
void SetInMap(MapObject* map, Any key, Any value);
/// False if there was no such key.
bool EraseFromMap(MapObject* map, const TVMFFIAny& key);
void ClearMap(MapObject* map);

/// Equality of keys: equal strings are equal wherever their bytes are; 1 and 1.0 are not.
bool KeysEqual(const TVMFFIAny& a, const TVMFFIAny& b);

/// Positions in insertion order; kNoSlot behind the last one, and behind one whose item is gone.
uint64_t FirstPosition(const MapObject* map);
uint64_t NextPosition(const MapObject* map, uint64_t position);
/// False if the item is gone.
bool HasItemAt(const MapObject* map, uint64_t position);
MapItem ItemAt(const MapObject* map, uint64_t position);

}  // namespace graphffi::runtime

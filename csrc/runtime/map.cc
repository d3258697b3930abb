// SPDX-License-Identifier: Apache-2.0
// Maps in their small and their hash table form.
#include "map.h"

#include <vector>

#include "map_key.h"
#include "map_table.h"

namespace graphffi::runtime {
namespace {

constexpr uint64_t kSmallBit = uint64_t{1} << 63;
constexpr uint64_t kSmallCapacity = 4;
constexpr uint64_t kFirstTableSlots = 16;
constexpr size_t kSmallItemsOffset = sizeof(TVMFFIObject) + offsetof(MapCell, fib_shift);
static_assert(sizeof(MapObject) == 80 && kSmallItemsOffset == 56);

bool IsSmall(const MapCell& cell) { return (cell.slots & kSmallBit) != 0; }
uint64_t SmallSlots(const MapCell& cell) { return cell.slots & ~kSmallBit; }
MapItem* SmallItems(const MapCell& cell) { return static_cast<MapItem*>(cell.data); }
MapItem* ItemsInside(MapObject* map) {
  return reinterpret_cast<MapItem*>(reinterpret_cast<char*>(map) + kSmallItemsOffset);
}

uint64_t FindSmall(const MapCell& cell, const TVMFFIAny& key) {
  for (uint64_t i = 0; i < cell.size; ++i) {
    if (KeysEqual(SmallItems(cell)[i].key.view(), key)) return i;
  }
  return kNoSlot;
}

uint64_t FindPosition(const MapObject* map, const TVMFFIAny& key) {
  if (IsSmall(map->cell)) return FindSmall(map->cell, key);
  return MapTable(&map->cell).Find(key, HashKey(key));
}

/// Copies the items bit by bit: whichever of map and table is given up must not destroy them. False
/// if the keys do not fit into so few slots.
bool CopyBits(const MapObject* map, MapCell* table) {
  for (uint64_t p = FirstPosition(map); p != kNoSlot; p = NextPosition(map, p)) {
    const MapItem& item = ItemAt(map, p);
    uint64_t hash = HashKey(item.key.view());
    Any key = Any::Steal(item.key.view());
    Any value = Any::Steal(item.value.view());
    bool inserted = false;
    try {
      inserted = MapTable(table).Insert(&key, &value, hash);
    } catch (...) {
      static_cast<void>(key.Release());
      static_cast<void>(value.Release());
      throw;
    }
    static_cast<void>(key.Release());
    static_cast<void>(value.Release());
    if (!inserted) return false;
  }
  return true;
}

/// Moves the items into a table with at least so many slots.
void Rehash(MapObject* map, uint64_t num_slots) {
  MapCell table = MapTable::MakeCell(num_slots);
  bool fits = false;
  try {
    fits = CopyBits(map, &table);
  } catch (...) {
    std::free(table.data);
    throw;
  }
  if (!fits) {
    std::free(table.data);
    return Rehash(map, num_slots * 2);
  }
  MapCell old = std::exchange(map->cell, table);
  if (old.data_deleter != nullptr) old.data_deleter(old.data);
}

void Append(MapObject* map, Any key, Any value) {
  MapCell& cell = map->cell;
  if (IsSmall(cell) && cell.size < SmallSlots(cell)) {
    new (&SmallItems(cell)[cell.size++]) MapItem{std::move(key), std::move(value)};
    return;
  }
  uint64_t hash = HashKey(key.view());
  if (IsSmall(cell)) Rehash(map, kFirstTableSlots);
  while (!MapTable(&cell).Insert(&key, &value, hash)) Rehash(map, cell.slots * 2);
}

void EraseSmall(MapCell* cell, uint64_t position) {
  MapItem* items = SmallItems(*cell);
  MapItem erased = std::move(items[position]);  // Dies last: its end may call foreign code.
  for (uint64_t i = position + 1; i < cell->size; ++i) items[i - 1] = std::move(items[i]);
  items[--cell->size].~MapItem();
}

void DestroyItems(const MapObject* map) {
  for (uint64_t position = FirstPosition(map); position != kNoSlot;) {
    uint64_t next = NextPosition(map, position);
    ItemAt(map, position).~MapItem();
    position = next;
  }
}

}  // namespace

MapObject::~MapObject() {
  DestroyItems(this);
  if (cell.data_deleter != nullptr) cell.data_deleter(cell.data);
}

ObjectPtr<MapObject> MakeMap(int32_t type_index) {
  constexpr size_t kSmallSize = kSmallItemsOffset + kSmallCapacity * sizeof(MapItem);
  auto map = MakeObject<MapObject>(type_index, kSmallSize - sizeof(MapObject), MapCell{});
  map->cell.data = ItemsInside(map.get());
  map->cell.slots = kSmallCapacity | kSmallBit;
  return map;
}

ObjectPtr<MapObject> CopyMap(const MapObject* map) {
  ObjectPtr<MapObject> copy = MakeMap(map->header.type_index);
  for (uint64_t p = FirstPosition(map); p != kNoSlot; p = NextPosition(map, p)) {
    Append(copy.get(), ItemAt(map, p).key, ItemAt(map, p).value);
  }
  return copy;
}

Any* FindInMap(const MapObject* map, const TVMFFIAny& key) {
  uint64_t position = FindPosition(map, key);
  return position == kNoSlot ? nullptr : &ItemAt(map, position).value;
}

void SetInMap(MapObject* map, Any key, Any value) {
  if (Any* found = FindInMap(map, key.view())) {
    std::swap(*found, value);  // The old value dies when the map is whole again.
  } else {
    Append(map, std::move(key), std::move(value));
  }
}

bool EraseFromMap(MapObject* map, const TVMFFIAny& key) {
  uint64_t position = FindPosition(map, key);
  if (position == kNoSlot) return false;
  if (IsSmall(map->cell)) {
    EraseSmall(&map->cell, position);
  } else {
    MapTable(&map->cell).Erase(position, HashKey(key));
  }
  return true;
}

void ClearMap(MapObject* map) {
  // The items die in `cleared`, because their end may call code that reads this map.
  std::vector<MapItem> cleared;
  for (uint64_t p = FirstPosition(map); p != kNoSlot; p = NextPosition(map, p)) {
    cleared.push_back(ItemAt(map, p));
  }
  if (!IsSmall(map->cell)) {
    MapCell empty = MapTable::MakeCell(kFirstTableSlots);
    DestroyItems(map);
    MapCell old = std::exchange(map->cell, empty);
    if (old.data_deleter != nullptr) old.data_deleter(old.data);
    return;
  }
  DestroyItems(map);
  map->cell.size = 0;
}

uint64_t FirstPosition(const MapObject* map) {
  if (!IsSmall(map->cell)) return map->cell.first;
  return map->cell.size == 0 ? kNoSlot : 0;
}

uint64_t NextPosition(const MapObject* map, uint64_t position) {
  if (!IsSmall(map->cell)) return MapTable(&map->cell).item(position).next;
  return position + 1 < map->cell.size ? position + 1 : kNoSlot;
}

MapItem& ItemAt(const MapObject* map, uint64_t position) {
  if (!IsSmall(map->cell)) return MapTable(&map->cell).item(position).item;
  return SmallItems(map->cell)[position];
}

}  // namespace graphffi::runtime

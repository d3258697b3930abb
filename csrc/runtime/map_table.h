// SPDX-License-Identifier: Apache-2.0
// The hash table form of a map: slots in blocks of 16, and chains of slots that share a home. A
// chain goes from slot to slot by jumps whose codes are stored in the slots' meta bytes.
#pragma once

#include "map.h"

namespace graphffi::runtime {

constexpr int kSlotsPerBlock = 16;
constexpr int kNumJumps = 126;
constexpr uint8_t kEmptySlot = 0xFF;
constexpr uint8_t kNotHeadBit = 0x80;
constexpr uint8_t kJumpMask = 0x7F;

struct TableItem {
  MapItem item;
  uint64_t previous;
  uint64_t next;
};

struct TableBlock {
  uint8_t meta[kSlotsPerBlock];
  TableItem items[kSlotsPerBlock];
};
static_assert(sizeof(TableBlock) == 784);

/// A map that is not small.
class MapTable {
 public:
  explicit MapTable(const MapCell* map) : map_(const_cast<MapCell*>(map)) {}

  /// An empty table, whose data_deleter frees its blocks. \throws std::bad_alloc
  static MapCell MakeCell(uint64_t num_slots);

  /// kNoSlot if there is no such key.
  uint64_t Find(const TVMFFIAny& key, uint64_t hash) const;
  /// False, and nothing moved from, if the table must grow first. The key must be new.
  bool Insert(Any* key, Any* value, uint64_t hash);
  void Erase(uint64_t slot, uint64_t hash);

  TableItem& item(uint64_t slot) const { return block(slot).items[slot % kSlotsPerBlock]; }

 private:
  struct Move;

  TableBlock& block(uint64_t slot) const {
    return static_cast<TableBlock*>(map_->data)[slot / kSlotsPerBlock];
  }
  uint8_t& meta(uint64_t slot) const { return block(slot).meta[slot % kSlotsPerBlock]; }
  uint64_t Home(uint64_t hash) const;
  bool IsHead(uint64_t slot) const { return (meta(slot) & kNotHeadBit) == 0; }
  uint64_t Jump(uint64_t slot, int code) const;
  /// kNoSlot at the end of the chain.
  uint64_t NextInChain(uint64_t slot) const;
  uint64_t PreviousInChain(uint64_t head, uint64_t slot) const;
  void SetJump(uint64_t slot, int code);
  bool Vacate(uint64_t slot);
  void MoveItem(uint64_t from, uint64_t to);
  void Link(uint64_t slot);
  void Unlink(uint64_t slot);

  MapCell* map_;
};

}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// The hash table form of a map.
#include "map_table.h"

#include <cstring>
#include <new>
#include <vector>

#include "map_key.h"

namespace graphffi::runtime {
namespace {

constexpr uint64_t kFibonacci = 11400714819323198485ULL;
constexpr double kMaxLoad = 0.99;

constexpr int kFirstTriangular = 16;
constexpr int kFirstLarge = 83;
constexpr uint64_t kLargeJumps[] = {8515,
                                    19110,
                                    42778,
                                    96141,
                                    216153,
                                    486591,
                                    1092981,
                                    2458653,
                                    5532801,
                                    12442566,
                                    27993903,
                                    62983476,
                                    141717030,
                                    318844378,
                                    717352503,
                                    1614057336,
                                    3631522476,
                                    8170957530,
                                    18384510628,
                                    41364789378,
                                    93070452520,
                                    209408356380,
                                    471168559170,
                                    1060128894105,
                                    2385289465695,
                                    5366898840628,
                                    12075518705635,
                                    27169915244790,
                                    61132312065111,
                                    137547689707000,
                                    309482283181501,
                                    696335127828753,
                                    1566753995631385,
                                    3525196511162271,
                                    7931691992677701,
                                    17846306936293605,
                                    40154190677507445,
                                    90346928918121501,
                                    203280589587557251,
                                    457381325854679626,
                                    1029107982097042876,
                                    2315492959180353330,
                                    5209859154120846435};
static_assert(kFirstLarge + sizeof(kLargeJumps) / sizeof(kLargeJumps[0]) == kNumJumps);

uint64_t JumpDistance(int code) {
  if (code < kFirstTriangular) return code;
  if (code >= kFirstLarge) return kLargeJumps[code - kFirstLarge];
  uint64_t n = code - 10;  // 21, the first of them, is the sixth triangular number.
  return n * (n + 1) / 2;
}

}  // namespace

/// An item of a chain, and the free slot where it goes from the slot before by the jump.
struct MapTable::Move {
  uint64_t from;
  uint64_t to;
  int jump;
};

MapCell MapTable::MakeCell(uint64_t num_slots) {
  uint64_t num_blocks = (num_slots + kSlotsPerBlock - 1) / kSlotsPerBlock;
  auto* blocks = static_cast<TableBlock*>(std::malloc(num_blocks * sizeof(TableBlock)));
  if (blocks == nullptr) throw std::bad_alloc();
  for (uint64_t i = 0; i < num_blocks; ++i) {
    std::memset(blocks[i].meta, kEmptySlot, sizeof(blocks[i].meta));
  }
  uint32_t fib_shift = 64 - __builtin_ctzll(num_slots);
  return {blocks, 0, num_slots, std::free, fib_shift, kNoSlot, kNoSlot};
}

uint64_t MapTable::Home(uint64_t hash) const { return (kFibonacci * hash) >> map_->fib_shift; }

uint64_t MapTable::Jump(uint64_t slot, int code) const {
  return (slot + JumpDistance(code)) & (map_->slots - 1);
}

uint64_t MapTable::NextInChain(uint64_t slot) const {
  int code = meta(slot) & kJumpMask;
  return code == 0 ? kNoSlot : Jump(slot, code);
}

uint64_t MapTable::PreviousInChain(uint64_t head, uint64_t slot) const {
  uint64_t previous = head;
  while (NextInChain(previous) != slot) previous = NextInChain(previous);
  return previous;
}

void MapTable::SetJump(uint64_t slot, int code) {
  meta(slot) = static_cast<uint8_t>((meta(slot) & kNotHeadBit) | code);
}

uint64_t MapTable::Find(const TVMFFIAny& key, uint64_t hash) const {
  uint64_t slot = Home(hash);
  if (!IsHead(slot)) return kNoSlot;
  for (; slot != kNoSlot; slot = NextInChain(slot)) {
    if (KeysEqual(item(slot).item.key.view(), key)) return slot;
  }
  return kNoSlot;
}

bool MapTable::Insert(Any* key, Any* value, uint64_t hash) {
  if (map_->size + 1 > static_cast<uint64_t>(kMaxLoad * static_cast<double>(map_->slots))) {
    return false;
  }
  uint64_t slot = Home(hash);
  uint8_t new_meta = 0;
  if (meta(slot) != kEmptySlot && !IsHead(slot)) {
    if (!Vacate(slot)) return false;
  } else if (meta(slot) != kEmptySlot) {
    uint64_t tail = slot;
    for (uint64_t next = slot; next != kNoSlot; next = NextInChain(next)) tail = next;
    int code = 1;
    while (code < kNumJumps && meta(Jump(tail, code)) != kEmptySlot) ++code;
    if (code == kNumJumps) return false;
    slot = Jump(tail, code);
    SetJump(tail, code);
    new_meta = kNotHeadBit;
  }
  meta(slot) = new_meta;
  new (&item(slot).item) MapItem{std::move(*key), std::move(*value)};
  Link(slot);
  return true;
}

/// Moves an item out of a slot that is another key's home, with all that follow it in its chain.
/// Plans first, so that nothing has changed when there is no room.
bool MapTable::Vacate(uint64_t slot) {
  uint64_t head = Home(HashKey(item(slot).item.key.view()));
  uint64_t before = PreviousInChain(head, slot);
  std::vector<Move> plan;
  auto is_free = [&](uint64_t candidate) {
    if (meta(candidate) != kEmptySlot) return false;
    for (const Move& move : plan) {
      if (move.to == candidate) return false;
    }
    return true;
  };
  uint64_t last = before;
  for (uint64_t from = slot; from != kNoSlot; from = NextInChain(from)) {
    int code = 1;
    while (code < kNumJumps && !is_free(Jump(last, code))) ++code;
    if (code == kNumJumps) return false;
    last = Jump(last, code);
    plan.push_back({from, last, code});
  }
  for (const Move& move : plan) {
    SetJump(before, move.jump);
    MoveItem(move.from, move.to);
    meta(move.to) = kNotHeadBit;
    meta(move.from) = kEmptySlot;
    before = move.to;
  }
  return true;
}

void MapTable::Erase(uint64_t slot, uint64_t hash) {
  uint64_t head = Home(hash);
  uint64_t tail = slot;
  for (uint64_t next = slot; next != kNoSlot; next = NextInChain(next)) tail = next;
  MapItem erased = std::move(item(slot).item);  // Dies last: its end may call foreign code.
  Unlink(slot);
  item(slot).item.~MapItem();
  if (tail != head) SetJump(PreviousInChain(head, tail), 0);
  if (tail != slot) MoveItem(tail, slot);
  meta(tail) = kEmptySlot;
}

void MapTable::MoveItem(uint64_t from, uint64_t to) {
  TableItem& source = item(from);
  TableItem& target = item(to);
  new (&target.item) MapItem(std::move(source.item));
  source.item.~MapItem();
  target.previous = source.previous;
  target.next = source.next;
  (target.previous == kNoSlot ? map_->first : item(target.previous).next) = to;
  (target.next == kNoSlot ? map_->last : item(target.next).previous) = to;
}

void MapTable::Link(uint64_t slot) {
  item(slot).previous = map_->last;
  item(slot).next = kNoSlot;
  (map_->last == kNoSlot ? map_->first : item(map_->last).next) = slot;
  map_->last = slot;
  ++map_->size;
}

void MapTable::Unlink(uint64_t slot) {
  const TableItem& removed = item(slot);
  (removed.previous == kNoSlot ? map_->first : item(removed.previous).next) = removed.next;
  (removed.next == kNoSlot ? map_->last : item(removed.next).previous) = removed.previous;
  --map_->size;
}

}  // namespace graphffi::runtime

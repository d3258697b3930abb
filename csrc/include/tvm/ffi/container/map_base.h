// SPDX-License-Identifier: Apache-2.0
// The object behind Map and Dict: pairs in insertion order, up to 4 of them in a plain array, more
// in a hash table.
//
// Libraries of any age walk and change these objects inline, so layout, hash and probing are ABI.
// In the table each slot has one byte: 0xFF empty; otherwise the low 7 bits say how far, as an
// index into kJumps, the next element of the same chain lies (0: none), and a clear top bit marks
// the head of a chain. A chain holds the keys whose home slot its head is.
#pragma once

#include <tvm/ffi/any.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

struct JumpTable {
  static constexpr int kCount = 126;
  uint64_t distance[kCount];
};

/// Distances 0 to 15, then triangular numbers: the consecutive ones up to T(72), then ever larger
/// ones.
constexpr JumpTable MakeJumpTable() {
  constexpr uint32_t kLarge[] = {
      130,        195,        292,       438,       657,       986,       1478,      2217,
      3326,       4988,       7482,      11223,     16835,     25252,     37877,     56816,
      85223,      127835,     191752,    287627,    431440,    647160,    970740,    1456110,
      2184165,    3276247,    4914370,   7371555,   11057333,  16585999,  24878998,  37318497,
      55977745,   83966618,   125949926, 188924889, 283387334, 425081001, 637621501, 956432251,
      1434648376, 2151972564, 3227958845};
  constexpr int kFirstTriangular = 16;
  constexpr int kFirstLarge = 83;
  JumpTable table{};
  for (int i = 0; i < JumpTable::kCount; ++i) {
    uint64_t n = i < kFirstLarge ? i - 10 : kLarge[i - kFirstLarge];  // T(6) is at index 16
    table.distance[i] = i < kFirstTriangular ? i : n * (n + 1) / 2;
  }
  return table;
}

inline constexpr JumpTable kJumps = MakeJumpTable();

}  // namespace detail

/// Pairs of owned values in insertion order.
class MapBaseObj : public Object {
 public:
  using KVType = std::pair<Any, Any>;
  static_assert(sizeof(KVType) == 32);
  /// No slot.
  static constexpr uint64_t kNone = ~uint64_t{0};

  MapBaseObj() = default;
  ~MapBaseObj() {
    DestroyPairs();
    FreeBuffer();
  }

  /// A position: the index of a pair in a small map, of a slot in a table.
  class iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using difference_type = int64_t;
    using value_type = KVType;
    using pointer = const KVType*;
    using reference = const KVType&;

    iterator() = default;
    iterator(const MapBaseObj* map, uint64_t index) : map_(map), index_(index) {}
    uint64_t index() const { return index_; }
    reference operator*() const { return *map_->PairAt(index_); }
    pointer operator->() const { return map_->PairAt(index_); }
    iterator& operator++() {
      index_ = map_->IsSmall() ? index_ + 1 : map_->ItemAt(index_)->next;
      return *this;
    }
    iterator operator++(int) {
      iterator before = *this;
      ++*this;
      return before;
    }
    iterator& operator--() {
      if (map_->IsSmall()) {
        --index_;
      } else {
        index_ = index_ == kNone ? map_->tail_ : map_->ItemAt(index_)->prev;
      }
      return *this;
    }
    iterator operator--(int) {
      iterator before = *this;
      --*this;
      return before;
    }
    bool operator==(const iterator& other) const {
      return map_ == other.map_ && index_ == other.index_;
    }
    bool operator!=(const iterator& other) const { return !(*this == other); }

   private:
    const MapBaseObj* map_ = nullptr;
    uint64_t index_ = 0;
  };
  using const_iterator = iterator;

  using key_type = Any;
  using mapped_type = Any;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  iterator begin() const { return iterator(this, IsSmall() ? 0 : head_); }
  iterator end() const { return iterator(this, IsSmall() ? size_ : kNone); }
  /// Whether a pair is there now, whatever was changed since the position was taken.
  bool HasPairAt(uint64_t index) const {
    return IsSmall() ? index < size_ : index < slots_ && *MetaAt(index) != kEmpty;
  }
  iterator find(const Any& key) const {
    uint64_t index = Find(key);
    return index == kNone ? end() : iterator(this, index);
  }
  size_t count(const Any& key) const { return Find(key) == kNone ? 0 : 1; }
  /// \throws Error(KeyError)
  const Any& at(const Any& key) const {
    uint64_t index = Find(key);
    if (index == kNone) TVM_FFI_THROW(KeyError) << "key is not in Map";
    return PairAt(index)->second;
  }
  Any& at(const Any& key) {
    return const_cast<Any&>(static_cast<const MapBaseObj*>(this)->at(key));
  }

  // The following change the map in place, for everybody who holds it. What goes dies when the map
  // is whole again, because its end may call code that reads the map; where a key's own hash or
  // equality throws, nothing has changed.

  void InsertOrAssign(Any key, Any value) {
    uint64_t index = Find(key);
    if (index != kNone) {
      std::swap(PairAt(index)->second, value);
    } else {
      InsertNew(std::move(key), std::move(value));
    }
  }
  /// False if there is no such key.
  bool erase(const Any& key) {
    uint64_t index = Find(key);
    if (index == kNone) return false;
    if (IsSmall()) {
      EraseSmall(index);
    } else {
      EraseSlot(index);
    }
    return true;
  }
  void erase(const iterator& position) { erase(Any(position->first)); }
  void clear() {
    std::vector<KVType> cleared;
    cleared.reserve(size_);
    for (KVType* pair : Pairs()) cleared.push_back(std::move(*pair));
    DestroyPairs();
    size_ = 0;
    if (IsSmall()) return;
    head_ = tail_ = kNone;
    for (uint64_t i = 0; i < slots_; ++i) *MetaAt(i) = kEmpty;
  }

  /// A new empty map: small, with its pairs inside the object.
  template <typename ObjType>
  static ObjectPtr<ObjType> Empty() {
    auto map = make_inplace_array_object<ObjType, KVType>(kSmallCapacity);
    map->data_ = reinterpret_cast<char*>(map.get()) + sizeof(ObjType);
    map->slots_ = kSmallMask | kSmallCapacity;
    return map;
  }
  template <typename ObjType>
  static ObjectPtr<ObjType> CopyFrom(const MapBaseObj* source) {
    ObjectPtr<ObjType> map = Empty<ObjType>();
    for (const KVType& pair : *source) map->InsertNew(Any(pair.first), Any(pair.second));
    return map;
  }

 private:
  static constexpr uint64_t kSmallMask = uint64_t{1} << 63;
  static constexpr uint64_t kSmallCapacity = 4;
  static constexpr uint64_t kMinSlots = 16;
  static constexpr uint64_t kSlotsPerBlock = 16;
  static constexpr uint8_t kEmpty = 0xFF;
  static constexpr uint8_t kChained = 0x80;
  static constexpr uint8_t kJumpMask = 0x7F;

  struct Item {
    KVType pair;
    uint64_t prev;
    uint64_t next;
  };
  struct Block {
    uint8_t meta[kSlotsPerBlock];
    alignas(8) char items[kSlotsPerBlock * sizeof(Item)];
  };
  static_assert(sizeof(Item) == 48 && sizeof(Block) == 784);

  bool IsSmall() const { return (slots_ & kSmallMask) != 0; }
  KVType* PairAt(uint64_t index) const {
    return IsSmall() ? static_cast<KVType*>(data_) + index : &ItemAt(index)->pair;
  }
  Item* ItemAt(uint64_t slot) const {
    Block* block = static_cast<Block*>(data_) + slot / kSlotsPerBlock;
    return reinterpret_cast<Item*>(block->items) + slot % kSlotsPerBlock;
  }
  uint8_t* MetaAt(uint64_t slot) const {
    return &(static_cast<Block*>(data_) + slot / kSlotsPerBlock)->meta[slot % kSlotsPerBlock];
  }
  bool IsHead(uint64_t slot) const { return (*MetaAt(slot) & kChained) == 0; }
  uint8_t JumpOf(uint64_t slot) const { return *MetaAt(slot) & kJumpMask; }
  void SetJump(uint64_t slot, int jump) {
    *MetaAt(slot) = static_cast<uint8_t>((*MetaAt(slot) & kChained) | jump);
  }
  uint64_t Jumped(uint64_t slot, int jump) const {
    return (slot + detail::kJumps.distance[jump]) & (slots_ - 1);
  }
  uint64_t Home(const Any& key) const {
    return (11400714819323198485ull * AnyHash()(key)) >> fib_shift_;
  }

  uint64_t Find(const Any& key) const {
    AnyEqual equal;
    if (IsSmall()) {
      for (uint64_t i = 0; i < size_; ++i) {
        if (equal(static_cast<KVType*>(data_)[i].first, key)) return i;
      }
      return kNone;
    }
    uint64_t slot = Home(key);
    if (!IsHead(slot)) return kNone;
    while (!equal(ItemAt(slot)->pair.first, key)) {
      uint8_t jump = JumpOf(slot);
      if (jump == 0) return kNone;
      slot = Jumped(slot, jump);
    }
    return slot;
  }

  void InsertNew(Any key, Any value) {
    if (IsSmall()) {
      uint64_t capacity = slots_ & ~kSmallMask;
      if (size_ < capacity) {
        new (static_cast<KVType*>(data_) + size_) KVType(std::move(key), std::move(value));
        ++size_;
        return;
      }
      Rehash(kMinSlots);
    } else if ((size_ + 1) * 100 > slots_ * 99) {
      Rehash(slots_ * 2);
    }
    uint64_t slot;
    while ((slot = ClaimSlot(Home(key))) == kNone) Rehash(slots_ * 2);
    new (&ItemAt(slot)->pair) KVType(std::move(key), std::move(value));
    Link(slot);
    ++size_;
  }

  /// An empty slot, linked into the chain that belongs to home; kNone if none is in reach.
  uint64_t ClaimSlot(uint64_t home) {
    if (*MetaAt(home) == kEmpty) {
      *MetaAt(home) = 0;
      return home;
    }
    if (!IsHead(home)) {
      if (!Evict(home)) return kNone;
      *MetaAt(home) = 0;
      return home;
    }
    uint64_t last = home;
    while (JumpOf(last) != 0) last = Jumped(last, JumpOf(last));
    int jump = FreeJumpFrom(last, {});
    if (jump == 0) return kNone;
    uint64_t slot = Jumped(last, jump);
    SetJump(last, jump);
    *MetaAt(slot) = kChained;
    return slot;
  }

  /// The first jump from slot to an empty slot that is not in taken; 0 if there is none.
  int FreeJumpFrom(uint64_t slot, const std::vector<uint64_t>& taken) const {
    for (int jump = 1; jump < detail::JumpTable::kCount; ++jump) {
      uint64_t target = Jumped(slot, jump);
      if (*MetaAt(target) != kEmpty) continue;
      bool is_taken = false;
      for (uint64_t other : taken) is_taken = is_taken || other == target;
      if (!is_taken) return jump;
    }
    return 0;
  }

  /// Empties a slot that a foreign chain runs through: it and what follows it in that chain move
  /// elsewhere. Changes nothing and gives false if there is no room in reach.
  bool Evict(uint64_t slot) {
    uint64_t before = PredecessorOf(slot);
    std::vector<uint64_t> from;
    std::vector<uint64_t> to;
    std::vector<int> jumps;
    uint64_t current = before;
    for (uint64_t moving = slot;; moving = Jumped(moving, JumpOf(moving))) {
      int jump = FreeJumpFrom(current, to);
      if (jump == 0) return false;
      current = Jumped(current, jump);
      from.push_back(moving);
      to.push_back(current);
      jumps.push_back(jump);
      if (JumpOf(moving) == 0) break;
    }
    current = before;
    for (size_t i = 0; i < from.size(); ++i) {
      SetJump(current, jumps[i]);
      MoveItem(from[i], to[i]);
      *MetaAt(from[i]) = kEmpty;
      *MetaAt(to[i]) = kChained;
      current = to[i];
    }
    return true;
  }

  uint64_t PredecessorOf(uint64_t slot) const {
    uint64_t before = Home(ItemAt(slot)->pair.first);
    for (uint64_t next; (next = Jumped(before, JumpOf(before))) != slot;) before = next;
    return before;
  }

  /// Moves a pair to an empty slot and relinks its neighbours in insertion order.
  void MoveItem(uint64_t from, uint64_t to) {
    Item* source = ItemAt(from);
    Item* target = ItemAt(to);
    new (&target->pair) KVType(std::move(source->pair));
    source->pair.~KVType();
    target->prev = source->prev;
    target->next = source->next;
    (target->prev == kNone ? head_ : ItemAt(target->prev)->next) = to;
    (target->next == kNone ? tail_ : ItemAt(target->next)->prev) = to;
  }

  void EraseSmall(uint64_t index) {
    KVType* pairs = static_cast<KVType*>(data_);
    KVType erased = std::move(pairs[index]);
    for (uint64_t i = index; i + 1 < size_; ++i) pairs[i] = std::move(pairs[i + 1]);
    pairs[--size_].~KVType();
  }

  void EraseSlot(uint64_t slot) {
    // The last pair of the chain takes the place of the erased one: heads stay where they are.
    uint64_t last = slot;
    uint64_t before_last = kNone;
    while (JumpOf(last) != 0) {
      before_last = last;
      last = Jumped(last, JumpOf(last));
    }
    if (before_last == kNone && !IsHead(slot)) before_last = PredecessorOf(slot);
    Item* item = ItemAt(slot);
    (item->prev == kNone ? head_ : ItemAt(item->prev)->next) = item->next;
    (item->next == kNone ? tail_ : ItemAt(item->next)->prev) = item->prev;
    KVType erased = std::move(item->pair);
    item->pair.~KVType();
    if (last != slot) MoveItem(last, slot);
    if (before_last != kNone) SetJump(before_last, 0);
    *MetaAt(last) = kEmpty;
    --size_;
  }

  /// Becomes a table of at least so many slots (a power of two), in the same insertion order.
  void Rehash(uint64_t slots) {
    const std::vector<KVType*> pairs = Pairs();
    MapBaseObj table;  // of size 0, so that it never destroys a pair
    for (table.MakeSlots(slots); !table.PlaceBits(pairs); table.MakeSlots(slots)) slots *= 2;
    std::swap(data_, table.data_);
    std::swap(slots_, table.slots_);
    std::swap(data_deleter_, table.data_deleter_);
    std::swap(fib_shift_, table.fib_shift_);
    std::swap(head_, table.head_);
    std::swap(tail_, table.tail_);
  }

  void MakeSlots(uint64_t slots) {
    const uint64_t blocks = slots / kSlotsPerBlock;
    auto* buffer = static_cast<Block*>(detail::AllocateObject(blocks * sizeof(Block), 16));
    for (uint64_t i = 0; i < blocks; ++i) std::memset(buffer[i].meta, kEmpty, kSlotsPerBlock);
    FreeBuffer();
    data_ = buffer;
    data_deleter_ = std::free;
    slots_ = slots;
    fib_shift_ = 64;
    while ((uint64_t{1} << (64 - fib_shift_)) < slots) --fib_shift_;
    head_ = tail_ = kNone;
  }

  /// Copies pairs bit by bit into empty slots: one of the two places is then given up without
  /// destroying them. False if they do not fit.
  bool PlaceBits(const std::vector<KVType*>& pairs) {
    for (KVType* pair : pairs) {
      const uint64_t slot = ClaimSlot(Home(pair->first));
      if (slot == kNone) return false;
      std::memcpy(static_cast<void*>(&ItemAt(slot)->pair), pair, sizeof(KVType));
      Link(slot);
    }
    return true;
  }

  /// The pair of a claimed slot becomes the last one.
  void Link(uint64_t slot) {
    Item* item = ItemAt(slot);
    item->prev = tail_;
    item->next = kNone;
    (tail_ == kNone ? head_ : ItemAt(tail_)->next) = slot;
    tail_ = slot;
  }

  std::vector<KVType*> Pairs() const {
    std::vector<KVType*> pairs;
    pairs.reserve(size_);
    for (iterator it = begin(); it != end(); ++it) pairs.push_back(PairAt(it.index()));
    return pairs;
  }

  void DestroyPairs() {
    for (uint64_t i = IsSmall() ? 0 : head_, left = size_; left > 0; --left) {
      uint64_t next = IsSmall() ? i + 1 : ItemAt(i)->next;
      PairAt(i)->~KVType();
      i = next;
    }
  }
  void FreeBuffer() {
    if (data_deleter_ != nullptr) data_deleter_(data_);
  }

  void* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t slots_ = kSmallMask;
  void (*data_deleter_)(void*) = nullptr;
  // Meaningful in tables only, but there is always room for them.
  uint32_t fib_shift_ = 0;
  uint64_t head_ = kNone;
  uint64_t tail_ = kNone;
};

static_assert(sizeof(MapBaseObj) == 80);

}  // namespace graphffi_v1
}  // namespace tvm::ffi

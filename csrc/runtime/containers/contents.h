// SPDX-License-Identifier: Apache-2.0
// Sequences and maps of either kind, for code that calls functions of others while it walks over
// them: those may change the container, so that a loop reads sizes and positions again, and keeps
// what it has in hand.
#pragma once

#include <tvm/ffi/container/map_base.h>
#include <tvm/ffi/container/seq_base.h>

#include <cstdint>

#include "on_headers.h"

namespace graphffi::runtime {

struct LoopEnd {};

/// The items of an Array or List. Borrowed from the value.
class Items {
 public:
  explicit Items(const Any& value)
      : items_(ffi::detail::AnyUnsafe::RawObjectPtrFromAnyAfterCheck<ffi::SeqBaseObj>(value)) {}

  int64_t size() const { return static_cast<int64_t>(items_->size()); }
  bool empty() const { return items_->empty(); }
  /// \throws Error(IndexError)
  Any operator[](int64_t index) const { return items_->at(index); }

  class Iterator {
   public:
    explicit Iterator(const Items* items) : items_(items) {}
    bool operator!=(LoopEnd) const { return index_ < items_->size(); }
    Any operator*() const { return (*items_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }

   private:
    const Items* items_;
    int64_t index_ = 0;
  };
  Iterator begin() const { return Iterator(this); }
  LoopEnd end() const { return {}; }

 private:
  const ffi::SeqBaseObj* items_;
};

/// The entries of a Map or Dict. Borrowed from the value. A loop ends where the entry that it has
/// in hand is taken away.
class Entries {
  using Map = ffi::MapBaseObj;

 public:
  explicit Entries(const Any& value)
      : map_(ffi::detail::AnyUnsafe::RawObjectPtrFromAnyAfterCheck<Map>(value)) {}

  size_t size() const { return map_->size(); }
  bool empty() const { return map_->empty(); }
  bool Has(const Any& key) const { return map_->count(key) != 0; }
  /// \throws Error(KeyError)
  Any at(const Any& key) const { return map_->at(key); }

  class Iterator {
   public:
    explicit Iterator(const Map* map) : map_(map), index_(map->begin().index()) {}
    bool operator!=(LoopEnd) const { return map_->HasPairAt(index_); }
    Map::KVType operator*() const { return *Map::iterator(map_, index_); }
    Iterator& operator++() {
      index_ = map_->HasPairAt(index_) ? (++Map::iterator(map_, index_)).index() : Map::kNone;
      return *this;
    }

   private:
    const Map* map_;
    uint64_t index_;
  };
  Iterator begin() const { return Iterator(map_); }
  LoopEnd end() const { return {}; }

 private:
  const Map* map_;
};

}  // namespace graphffi::runtime

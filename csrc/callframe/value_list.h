// SPDX-License-Identifier: Apache-2.0
// Values of a call, in room that the caller has for them.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "callframe/plan.h"

namespace graphffi {

/// Memory for what few calls have. It lives as long as the call.
class Spill {
 public:
  Spill() = default;
  ~Spill() {
    if (__builtin_expect(opt_first_ != nullptr, 0)) Free();
  }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  /// Copies `size` values into memory for `capacity` of them. \throws std::bad_alloc
  template <typename T>
  T* Move(const T* values, int32_t size, int32_t capacity) {
    const size_t bytes = sizeof(Block) + sizeof(T) * static_cast<size_t>(capacity);
    auto* block = static_cast<Block*>(std::malloc(bytes));
    if (block == nullptr) throw std::bad_alloc();
    block->opt_next = std::exchange(opt_first_, block);
    T* moved = reinterpret_cast<T*>(block + 1);
    for (int32_t i = 0; i < size; ++i) moved[i] = values[i];
    return moved;
  }

 private:
  struct alignas(16) Block {
    Block* opt_next;
  };
  __attribute__((noinline)) void Free() {
    while (opt_first_ != nullptr) std::free(std::exchange(opt_first_, opt_first_->opt_next));
  }

  Block* opt_first_ = nullptr;
};

/// An array that begins in borrowed memory and moves when that is full. Once one of its slots is a
/// list, it has slots.
class ValueList {
 public:
  /// All are borrowed.
  ValueList(TVMFFIAny* room, int32_t capacity, Spill* spill)
      : values_(room), capacity_(capacity), spill_(*spill) {}
  ValueList(const ValueList&) = delete;
  ValueList& operator=(const ValueList&) = delete;

  /// The place of one more value, to be filled in. \throws std::bad_alloc
  TVMFFIAny* Add() {
    if (__builtin_expect(size_ == capacity_, 0)) Grow();
    return values_ + size_++;
  }
  /// Adds a value that is a slot.
  TVMFFIAny* AddSlot() {
    if (__builtin_expect(opt_slots_ != nullptr, 0)) AppendSlot({size_});
    return Add();
  }
  /// A slot for the next `count` values. \throws std::bad_alloc
  __attribute__((noinline)) void BeginList(int32_t count) {
    if (opt_slots_ == nullptr) {
      slot_capacity_ = size_ + kMoreSlots;
      opt_slots_ = spill_.Move<Slot>(nullptr, 0, slot_capacity_);
      for (num_slots_ = 0; num_slots_ < size_; ++num_slots_) opt_slots_[num_slots_] = {num_slots_};
    }
    AppendSlot({size_, count});
  }

  int32_t size() const { return size_; }
  TVMFFIAny& operator[](int32_t i) { return values_[i]; }
  const TVMFFIAny& operator[](int32_t i) const { return values_[i]; }
  /// Valid until more is added.
  Bank bank() const { return {values_, opt_slots_, opt_slots_ == nullptr ? size_ : num_slots_}; }

 private:
  static constexpr int32_t kMoreSlots = 16;

  __attribute__((noinline)) void Grow() {
    capacity_ = 2 * capacity_ + 16;
    values_ = spill_.Move(values_, size_, capacity_);
  }
  __attribute__((noinline)) void AppendSlot(Slot slot) {
    if (num_slots_ == slot_capacity_) {
      slot_capacity_ *= 2;
      opt_slots_ = spill_.Move(opt_slots_, num_slots_, slot_capacity_);
    }
    opt_slots_[num_slots_++] = slot;
  }

  TVMFFIAny* values_;
  int32_t size_ = 0, capacity_;
  Spill& spill_;
  Slot* opt_slots_ = nullptr;
  int32_t num_slots_, slot_capacity_;  // of opt_slots_, if there are any
};

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Values of a call, in room that the caller has for them.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>

#include "call/plan.h"

namespace graphffi {

/// Memory for what few calls have. It lives as long as the call.
class Spill {
 public:
  Spill() = default;
  ~Spill() {
    if (opt_first_ != nullptr) Free();
  }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  /// Copies `size` values into memory for `capacity` of them. \throws std::bad_alloc
  template <typename T>
  T* Move(const T* values, int32_t size, int32_t capacity);

 private:
  struct alignas(16) Block {
    Block* opt_next;
  };
  void Free();

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
    if (size_ == capacity_) Grow();
    return values_ + size_++;
  }
  /// Adds a value that is a slot.
  TVMFFIAny* AddSlot() {
    if (opt_slots_ != nullptr) AppendSlot({size_});
    return Add();
  }
  /// A slot for the next `count` values. \throws std::bad_alloc
  void BeginList(int32_t count);

  int32_t size() const { return size_; }
  TVMFFIAny& operator[](int32_t i) { return values_[i]; }
  const TVMFFIAny& operator[](int32_t i) const { return values_[i]; }
  /// Valid until more is added.
  Bank bank() const { return {values_, opt_slots_, opt_slots_ == nullptr ? size_ : num_slots_}; }

 private:
  void Grow();
  void AppendSlot(Slot slot);

  TVMFFIAny* values_;
  int32_t size_ = 0, capacity_;
  Spill& spill_;
  Slot* opt_slots_ = nullptr;
  int32_t num_slots_, slot_capacity_;  // of opt_slots_, if there are any
};

}  // namespace graphffi

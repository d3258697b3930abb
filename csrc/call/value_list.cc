// SPDX-License-Identifier: Apache-2.0
#include "call/value_list.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace graphffi {

namespace {

constexpr int32_t kMoreValues = 16;  // in each step

}  // namespace

template <typename T>
T* Spill::Move(const T* values, int32_t size, int32_t capacity) {
  const size_t bytes = sizeof(Block) + sizeof(T) * static_cast<size_t>(capacity);
  auto* block = static_cast<Block*>(std::malloc(bytes));
  if (block == nullptr) throw std::bad_alloc();
  block->opt_next = std::exchange(opt_first_, block);
  T* moved = reinterpret_cast<T*>(block + 1);
  std::copy_n(values, size, moved);
  return moved;
}

void Spill::Free() {
  while (opt_first_ != nullptr) std::free(std::exchange(opt_first_, opt_first_->opt_next));
}

void ValueList::BeginList(int32_t count) {
  if (opt_slots_ == nullptr) {
    slot_capacity_ = size_ + kMoreValues;
    opt_slots_ = spill_.Move<Slot>(nullptr, 0, slot_capacity_);
    for (num_slots_ = 0; num_slots_ < size_; ++num_slots_) opt_slots_[num_slots_] = {num_slots_};
  }
  AppendSlot({size_, count});
}

void ValueList::Grow() {
  capacity_ = 2 * capacity_ + kMoreValues;
  values_ = spill_.Move(values_, size_, capacity_);
}

void ValueList::AppendSlot(Slot slot) {
  if (num_slots_ == slot_capacity_) {
    slot_capacity_ *= 2;
    opt_slots_ = spill_.Move(opt_slots_, num_slots_, slot_capacity_);
  }
  opt_slots_[num_slots_++] = slot;
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Arrays, lists and shapes as objects.
#include "array.h"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace graphffi::runtime {
namespace {

constexpr int64_t kMinListCapacity = 4;

struct ShapeObject {
  TVMFFIObject header;
  TVMFFIShapeCell cell;
};

Any* AllocateItems(int64_t capacity) {
  if (capacity > PTRDIFF_MAX / static_cast<int64_t>(sizeof(Any))) throw std::bad_alloc();
  auto* items = static_cast<Any*>(std::malloc(sizeof(Any) * capacity));
  if (items == nullptr) throw std::bad_alloc();
  return items;
}

}  // namespace

SeqObject::~SeqObject() {
  std::destroy_n(items(), cell.size);
  if (cell.data_deleter != nullptr) cell.data_deleter(cell.data);
}

ObjectPtr<SeqObject> MakeArray(std::vector<Any> items) {
  auto size = static_cast<int64_t>(items.size());
  auto array = MakeObject<SeqObject>(kTVMFFIArray, sizeof(Any) * items.size(),
                                     TVMFFISeqCell{nullptr, 0, size, nullptr});
  array->cell.data = array.get() + 1;
  std::uninitialized_move(items.begin(), items.end(), array->items());
  array->cell.size = size;
  return array;
}

ObjectPtr<SeqObject> MakeList(std::vector<Any> items) {
  auto list = MakeObject<SeqObject>(kTVMFFIList, 0, TVMFFISeqCell{nullptr, 0, 0, nullptr});
  ReserveList(list.get(), std::max<int64_t>(kMinListCapacity, items.size()));
  std::uninitialized_move(items.begin(), items.end(), list->items());
  list->cell.size = static_cast<int64_t>(items.size());
  return list;
}

void ReserveList(SeqObject* list, int64_t capacity) {
  TVMFFISeqCell& cell = list->cell;
  if (capacity <= cell.capacity) return;
  Any* grown = AllocateItems(capacity);
  std::uninitialized_move_n(list->items(), cell.size, grown);
  std::destroy_n(list->items(), cell.size);
  if (cell.data_deleter != nullptr) cell.data_deleter(cell.data);
  cell.data = grown;
  cell.capacity = capacity;
  cell.data_deleter = std::free;
}

ObjectPtr<> MakeShape(const std::vector<int64_t>& extents) {
  auto shape =
      MakeObject<ShapeObject>(kTVMFFIShape, sizeof(int64_t) * extents.size(), TVMFFIShapeCell{});
  auto* data = reinterpret_cast<int64_t*>(shape.get() + 1);
  std::copy(extents.begin(), extents.end(), data);
  shape->cell = {data, extents.size()};
  return ObjectPtr<>::Steal(shape.Release());
}

}  // namespace graphffi::runtime

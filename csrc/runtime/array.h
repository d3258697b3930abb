// SPDX-License-Identifier: Apache-2.0
// Arrays, lists and shapes.
#pragma once

#include <vector>

#include "any.h"

namespace graphffi::runtime {

/// An Array or List; code in other libraries may replace the buffer of the cell by its own.
struct SeqObject {
  TVMFFIObject header;
  TVMFFISeqCell cell;

  ~SeqObject();
  Any* items() { return static_cast<Any*>(cell.data); }
  int64_t size() const { return cell.size; }
};

/// Items are inside the object, and their number is fixed.
ObjectPtr<SeqObject> MakeArray(std::vector<Any> items);
/// Items are in a buffer of their own, which grows.
ObjectPtr<SeqObject> MakeList(std::vector<Any> items);
/// Makes room in a list for that many items.
void ReserveList(SeqObject* list, int64_t capacity);

ObjectPtr<> MakeShape(const std::vector<int64_t>& extents);

}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// The places of a call's values, chosen so that the kernel gets them without a move.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "call/plan.h"

namespace graphffi {

/// Places in one array of kRoom values, for the values of one class each. Made once for each plan.
struct Layout {
  /// Where `capacity` values stand.
  struct Range {
    int32_t begin, capacity;
  };
  static constexpr int32_t kMost = 64;  ///< values of one class
  static constexpr int32_t kRoom = 3 * kMost;

  /// Room for the values of any call, lists included.
  static Layout Apart() { return {{0, kMost}, {kMost, kMost}, {2 * kMost, kMost}, 0, {}}; }
  /// The array begins with what the kernel gets, once the constants are in place.
  bool is_in_order() const { return num_args > 0; }
  void PutConstants(TVMFFIAny* room) const {
    for (const auto& [position, value] : constants) room[position] = value;
  }

  /// Whether the values of each class stand where those of `other` do.
  bool has_ranges_of(const Layout& other) const {
    return inputs.begin == other.inputs.begin && outputs.begin == other.outputs.begin &&
           attributes.begin == other.attributes.begin && is_in_order() == other.is_in_order();
  }

  Range inputs, outputs, attributes;
  int32_t num_args;
  std::vector<std::pair<int32_t, TVMFFIAny>> constants;

 private:
  friend class Signature;
  /// The kernel's arguments first, where `plan`, without lists, names the values of each class all,
  /// once and in order, or not at all; otherwise Apart(). The arguments' number is how many slots
  /// each class has. Strings are borrowed from the plan.
  static Layout Of(const Plan& plan, int32_t num_inputs, int32_t num_outputs,
                   int32_t num_attributes);
};

}  // namespace graphffi

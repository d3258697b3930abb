// SPDX-License-Identifier: Apache-2.0
// Conditions on tensors: what the code of an exported program takes for granted.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shapes/instructions.h"

namespace graphffi {

/// A program that computes no results. Its text has instructions and, one a line,
///
///     check 7 operand 'y': expected size {3} as in 'x', got {t1}
///
/// where value 7 is not 0 for tensors of which the condition holds. It is not known to hold if an
/// instruction fails, and is not looked at if it is about a dimension that a tensor does not have.
/// In the message, `{3}` is value 3 and `{t1}` the second tensor, described. Immutable.
class Conditions {
 public:
  /// \throws Error(InternalError) for text that nothing of graphffi's writes
  static Conditions Parse(std::string_view text);

  /// Describes a tensor, by its position.
  using Describe = std::function<std::string(int32_t)>;
  /// The message of the first condition that does not hold; empty if all do.
  std::string FindBroken(const DLTensor* tensors, int32_t count, const Describe& describe) const;

 private:
  struct Check {
    int32_t value;
    std::string message;
  };

  std::string Write(const Check& check, const int64_t* values, const Describe& describe) const;

  Instructions instructions_;
  std::vector<Check> checks_;
};

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Conditions on tensors: what the code of an exported program takes for granted.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shapes/instructions.h"

namespace graphffi {

/// A program that computes no results. Its text has instructions and, one a line,
///
///     check 7 ValueError operand 'y': expected size {3} as in 'x', got {t1}
///
/// where value 7 is not 0 for tensors of which the condition holds. It is not known to hold if an
/// instruction fails, and is not looked at if it is about a dimension that a tensor does not have.
/// In the message, `{3}` is value 3, `{t1}` the second tensor, described, and `{d1}` its data type.
/// Immutable.
class Conditions {
 public:
  /// \throws Error(InternalError) for text that nothing of graphffi's writes
  static Conditions Parse(std::string_view text);

  /// Describes a tensor, by its position.
  using Describe = std::function<std::string(int32_t)>;
  /// The error of the first condition that does not hold. A tensor may be NULL, for None.
  struct Broken {
    std::string kind, message;
  };
  std::optional<Broken> FindBroken(const DLTensor* const* tensors, int32_t count,
                                   const Describe& describe) const;

 private:
  struct Check {
    int32_t value;
    std::string kind, message;
  };
  /// What checks say of a tensor; -1: nothing.
  struct Kind {
    int64_t opt_dtype = -1, opt_ndim = -1;
  };
  /// Of a size, with a number or with another size.
  struct Comparison {
    bool is_limit;  // `ge`; else `eq`
    int32_t tensor, dim, opt_other, other_dim;
    int64_t number;
  };

  bool AddComparison(int32_t value);
  bool HasDim(const Instructions::Instruction& load) const;
  bool AllHold(const DLTensor* const* tensors, int32_t count) const;
  std::string Write(const Check& check, const int64_t* values, const DLTensor* const* tensors,
                    int32_t count, const Describe& describe) const;

  Instructions instructions_;
  std::vector<Check> checks_;
  // All checks once more, if they are comparisons: computing the values takes ten times the time.
  bool are_comparisons_ = true;
  std::vector<Kind> kinds_;
  std::vector<Comparison> comparisons_;
};

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// The attributes of a custom call to tvm_ffi.call, decoded and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "xla_ffi.h"

namespace graphffi {

/// What the program says about one call. Everything but `func` may be left out of the program.
struct CallAttributes {
  std::string func;            ///< the kernel reference
  std::string plan;            ///< empty: all inputs, then all outputs
  std::vector<int64_t> ints;   ///< n0, n1, … of the plan
  std::vector<double> floats;  ///< f0, f1, …
  std::vector<std::string>
      strs;             ///< s0, s1, …: in the program one string of `<length>:<bytes>` parts
  std::string digest;   ///< identifies the kernel and the rule in caches
  std::string subject;  ///< begins the text of errors; `func` if it is not given
  int64_t mutated = 0;  ///< how many of the last operands are aliased with the last results
  bool pass_owning_tensor = false;  ///< lend Tensor objects instead of views

  /// \throws Error(TypeError or ValueError) naming all bad attributes at once.
  static CallAttributes Decode(const xla::Attributes& attributes);

  /// Equal for equal attributes only.
  std::string Key() const;
};

}  // namespace graphffi

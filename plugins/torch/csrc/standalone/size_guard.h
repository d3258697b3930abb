// SPDX-License-Identifier: Apache-2.0
// Relations between sizes of operands that a graph's code relies on, in the words of generated
// code.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstdint>

namespace graphffi_standalone {

/// The sizes of a call's operands: `size(0, 1)` is the second size of the first one.
class Sizes {
 public:
  explicit Sizes(const DLTensor* operands) : operands_(operands) {}
  int64_t operator()(int32_t operand, int32_t dimension) const {
    return operands_[operand].shape[dimension];
  }

 private:
  const DLTensor* operands_;
};

struct SizeGuard {
  const char* text;         ///< an expression of Python, "(1 + x.shape[0]) // 2 == y.shape[0]"
  const int32_t* operands;  ///< that it names
  int32_t num_operands;
  bool (*holds)(const Sizes& size);  ///< \throws DivisionByZero
};

struct DivisionByZero {};

/// `a // b` of Python, which rounds down.
inline int64_t FloorDiv(int64_t a, int64_t b) {
  if (b == 0) throw DivisionByZero();
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/// `a % b` of Python, which has the sign of b.
inline int64_t Mod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

inline int64_t Truncated(double value) { return static_cast<int64_t>(value); }

template <typename... Values>
int64_t Min(Values... values) {
  return std::min({values...});
}

template <typename... Values>
int64_t Max(Values... values) {
  return std::max({values...});
}

}  // namespace graphffi_standalone

// SPDX-License-Identifier: Apache-2.0
// Relations between sizes of operands that a graph's code relies on, in the words of generated
// code.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

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
  bool (*holds)(const Sizes& size);  ///< \throws NoValue
};

/// An expression has no value: a division by zero, or more than 64 bits.
struct NoValue {};

template <typename A, typename B>
using Common = std::common_type_t<A, B>;

template <typename A, typename B>
constexpr bool kAreInts = std::is_integral_v<A> && std::is_integral_v<B>;

template <typename A, typename B>
auto Sum(A a, B b) {
  Common<A, B> result = 0;
  if constexpr (kAreInts<A, B>) {
    if (__builtin_add_overflow(a, b, &result)) throw NoValue();
  } else {
    result = static_cast<double>(a) + static_cast<double>(b);
  }
  return result;
}

template <typename A, typename B>
auto Difference(A a, B b) {
  Common<A, B> result = 0;
  if constexpr (kAreInts<A, B>) {
    if (__builtin_sub_overflow(a, b, &result)) throw NoValue();
  } else {
    result = static_cast<double>(a) - static_cast<double>(b);
  }
  return result;
}

template <typename A, typename B>
auto Product(A a, B b) {
  Common<A, B> result = 0;
  if constexpr (kAreInts<A, B>) {
    if (__builtin_mul_overflow(a, b, &result)) throw NoValue();
  } else {
    result = static_cast<double>(a) * static_cast<double>(b);
  }
  return result;
}

/// `a / b` of Python, for ints that a double holds.
template <typename A, typename B>
double Quotient(A a, B b) {
  if (b == 0) throw NoValue();
  return static_cast<double>(a) / static_cast<double>(b);
}

/// `a // b` of Python, which rounds down.
template <typename A, typename B>
auto FloorDiv(A a, B b) {
  if (b == 0) throw NoValue();
  if constexpr (kAreInts<A, B>) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  } else {
    return std::floor(static_cast<double>(a) / static_cast<double>(b));
  }
}

/// `a % b` of Python, which has the sign of b.
template <typename A, typename B>
auto Mod(A a, B b) {
  return Difference(a, Product(FloorDiv(a, b), b));
}

/// `a ** b` of Python; of ints, with b of 0 or more.
template <typename A, typename B>
auto Power(A a, B b) {
  if constexpr (kAreInts<A, B>) {
    if (b < 0) throw NoValue();
    A result = 1;
    for (B i = 0; i < b && result != 0; ++i) result = Product(result, a);
    return result;
  } else {
    return std::pow(static_cast<double>(a), static_cast<double>(b));
  }
}

inline int64_t Truncated(double value) { return static_cast<int64_t>(value); }
inline int64_t Truncated(int64_t value) { return value; }
inline int64_t Floor(double value) { return static_cast<int64_t>(std::floor(value)); }
inline int64_t Floor(int64_t value) { return value; }
inline int64_t Ceil(double value) { return static_cast<int64_t>(std::ceil(value)); }
inline int64_t Ceil(int64_t value) { return value; }

template <typename Value>
Value Abs(Value value) {
  return value < 0 ? -value : value;
}

template <typename... Values>
auto Min(Values... values) {
  return std::min({static_cast<std::common_type_t<Values...>>(values)...});
}

template <typename... Values>
auto Max(Values... values) {
  return std::max({static_cast<std::common_type_t<Values...>>(values)...});
}

}  // namespace graphffi_standalone

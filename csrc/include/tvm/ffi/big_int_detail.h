// SPDX-License-Identifier: Apache-2.0
// BigInt's object, and arithmetic on numbers without bounds: a sign and 32-bit digits.
#pragma once

#include <tvm/ffi/error.h>
#include <tvm/ffi/object.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

struct BigIntUnsafe;

/// The words of an integer that does not fit int64_t, which follow the object.
class BigIntObj : public Object {
 public:
  /// Of as many words, which are not initialised: made by make_inplace_array_object.
  explicit BigIntObj(size_t size) : size_(size) {}
  BigIntObj(const BigIntObj&) = delete;
  BigIntObj& operator=(const BigIntObj&) = delete;

  static constexpr int32_t _type_index = kTVMFFIBigInt;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC("ffi.BigInt", BigIntObj, Object);

 private:
  friend struct BigIntUnsafe;
  size_t size_;
};

/// A number without its sign, least significant digit first; the last digit isn't 0, zero is empty.
using Magnitude = std::vector<uint32_t>;

inline void Trim(Magnitude* value) {
  while (!value->empty() && value->back() == 0) value->pop_back();
}

inline int CompareMagnitudes(const Magnitude& a, const Magnitude& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

inline Magnitude AddMagnitudes(const Magnitude& a, const Magnitude& b) {
  Magnitude sum(std::max(a.size(), b.size()) + 1);
  uint64_t carry = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    carry += (i < a.size() ? uint64_t{a[i]} : 0) + (i < b.size() ? b[i] : 0);
    sum[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  Trim(&sum);
  return sum;
}

/// a - b, where a >= b.
inline Magnitude SubtractMagnitudes(Magnitude a, const Magnitude& b) {
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t digit = int64_t{a[i]} - (i < b.size() ? int64_t{b[i]} : 0) - borrow;
    borrow = digit < 0 ? 1 : 0;
    a[i] = static_cast<uint32_t>(digit);
  }
  Trim(&a);
  return a;
}

inline Magnitude MultiplyMagnitudes(const Magnitude& a, const Magnitude& b) {
  Magnitude product(a.size() + b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      carry += uint64_t{a[i]} * b[j] + product[i + j];
      product[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    product[i + b.size()] = static_cast<uint32_t>(carry);
  }
  Trim(&product);
  return product;
}

/// Divides value in place by one digit and returns the remainder.
inline uint32_t DivideByDigit(Magnitude* value, uint32_t divisor) {
  uint64_t remainder = 0;
  for (size_t i = value->size(); i-- > 0;) {
    remainder = remainder << 32 | (*value)[i];
    (*value)[i] = static_cast<uint32_t>(remainder / divisor);
    remainder %= divisor;
  }
  Trim(value);
  return static_cast<uint32_t>(remainder);
}

/// value << bits
inline Magnitude ShiftMagnitude(const Magnitude& value, uint64_t bits) {
  if (value.empty()) return value;
  size_t digits = bits / 32;
  unsigned rest = bits % 32;
  Magnitude shifted(value.size() + digits + 1);
  for (size_t i = 0; i < value.size(); ++i) {
    uint64_t wide = uint64_t{value[i]} << rest;
    shifted[i + digits] |= static_cast<uint32_t>(wide);
    shifted[i + digits + 1] = static_cast<uint32_t>(wide >> 32);
  }
  Trim(&shifted);
  return shifted;
}

/// Quotient and remainder of long division; divisor isn't zero. Knuth's algorithm D: the divisor is
/// shifted until its first digit has the top bit, so that a guessed digit is at most two too large.
inline std::pair<Magnitude, Magnitude> DivideMagnitudes(const Magnitude& a, const Magnitude& b) {
  if (CompareMagnitudes(a, b) < 0) return {{}, a};
  if (b.size() == 1) {
    Magnitude quotient = a;
    uint32_t remainder = DivideByDigit(&quotient, b[0]);
    return {quotient, remainder == 0 ? Magnitude{} : Magnitude{remainder}};
  }
  unsigned shift = 0;
  while ((b.back() << shift & 0x80000000U) == 0) ++shift;
  Magnitude divisor = ShiftMagnitude(b, shift);
  Magnitude rest = ShiftMagnitude(a, shift);
  rest.resize(a.size() + 1);
  size_t n = divisor.size();
  Magnitude quotient(rest.size() - n);
  for (size_t i = quotient.size(); i-- > 0;) {
    uint64_t top = uint64_t{rest[i + n]} << 32 | rest[i + n - 1];
    uint64_t guess = top / divisor[n - 1];
    uint64_t left = top % divisor[n - 1];
    while (guess >> 32 != 0 || guess * divisor[n - 2] > (left << 32 | rest[i + n - 2])) {
      --guess;
      left += divisor[n - 1];
      if (left >> 32 != 0) break;
    }
    uint64_t carry = 0;
    int64_t borrow = 0;
    for (size_t j = 0; j <= n; ++j) {
      carry += j < n ? guess * divisor[j] : 0;
      int64_t digit = int64_t{rest[i + j]} - static_cast<uint32_t>(carry) - borrow;
      borrow = digit < 0 ? 1 : 0;
      rest[i + j] = static_cast<uint32_t>(digit);
      carry >>= 32;
    }
    if (borrow != 0) {
      --guess;
      carry = 0;
      for (size_t j = 0; j <= n; ++j) {
        carry += uint64_t{rest[i + j]} + (j < n ? divisor[j] : 0);
        rest[i + j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
    }
    quotient[i] = static_cast<uint32_t>(guess);
  }
  Trim(&quotient);
  Trim(&rest);
  DivideByDigit(&rest, uint32_t{1} << shift);
  return {quotient, rest};
}

/// A sign and a magnitude; zero isn't negative.
struct SignedMagnitude {
  bool negative = false;
  Magnitude magnitude;

  /// From the words of two's complement, least significant first; at least one.
  static SignedMagnitude FromWords(const std::vector<uint64_t>& words) {
    SignedMagnitude number;
    number.negative = words.back() >> 63 != 0;
    uint64_t carry = number.negative ? 1 : 0;
    for (uint64_t word : words) {
      if (number.negative) {
        word = ~word + carry;
        carry = carry != 0 && word == 0 ? 1 : 0;
      }
      number.magnitude.push_back(static_cast<uint32_t>(word));
      number.magnitude.push_back(static_cast<uint32_t>(word >> 32));
    }
    Trim(&number.magnitude);
    return number;
  }
  /// With a word more than the number may need, for the sign.
  std::vector<uint64_t> ToWords() const {
    std::vector<uint64_t> words(magnitude.size() / 2 + 2);
    for (size_t i = 0; i < magnitude.size(); ++i) {
      words[i / 2] |= uint64_t{magnitude[i]} << (i % 2 * 32);
    }
    uint64_t carry = 1;
    for (uint64_t& word : words) {
      if (!negative) break;
      word = ~word + carry;
      carry = carry != 0 && word == 0 ? 1 : 0;
    }
    return words;
  }
};

inline SignedMagnitude AddSigned(const SignedMagnitude& a, const SignedMagnitude& b) {
  if (a.negative == b.negative) return {a.negative, AddMagnitudes(a.magnitude, b.magnitude)};
  int order = CompareMagnitudes(a.magnitude, b.magnitude);
  if (order == 0) return {};
  if (order > 0) return {a.negative, SubtractMagnitudes(a.magnitude, b.magnitude)};
  return {b.negative, SubtractMagnitudes(b.magnitude, a.magnitude)};
}

inline std::string ToDecimal(SignedMagnitude number) {
  if (number.magnitude.empty()) return "0";
  std::string reversed;
  while (!number.magnitude.empty()) {
    uint32_t digits = DivideByDigit(&number.magnitude, 1000000000);
    for (int i = 0; i < 9; ++i, digits /= 10) {
      reversed.push_back(static_cast<char>('0' + digits % 10));
    }
  }
  reversed.erase(reversed.find_last_not_of('0') + 1);
  if (number.negative) reversed.push_back('-');
  return {reversed.rbegin(), reversed.rend()};
}

}  // namespace detail
}  // namespace graphffi_v1
}  // namespace tvm::ffi

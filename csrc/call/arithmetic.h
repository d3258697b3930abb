// SPDX-License-Identifier: Apache-2.0
// Arithmetic of ints as Python's, but within 64 bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace graphffi {

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kFloorDiv, kMod, kMin, kMax };

/// By the names that plans and shape programs have for them.
inline std::optional<Arithmetic> ArithmeticOf(std::string_view name) {
  constexpr std::pair<std::string_view, Arithmetic> kNames[] = {
      {"add", Arithmetic::kAdd}, {"sub", Arithmetic::kSub},           {"mul", Arithmetic::kMul},
      {"min", Arithmetic::kMin}, {"floordiv", Arithmetic::kFloorDiv}, {"max", Arithmetic::kMax},
      {"mod", Arithmetic::kMod},
  };
  for (const auto& [known, operation] : kNames) {
    if (known == name) return operation;
  }
  return std::nullopt;
}

/// False at a division by zero, or if 64 bits do not hold the value.
inline bool Compute(Arithmetic operation, int64_t a, int64_t b, int64_t* out) {
  switch (operation) {
    case Arithmetic::kAdd:
      return !__builtin_add_overflow(a, b, out);
    case Arithmetic::kSub:
      return !__builtin_sub_overflow(a, b, out);
    case Arithmetic::kMul:
      return !__builtin_mul_overflow(a, b, out);
    case Arithmetic::kMin:
      *out = std::min(a, b);
      return true;
    case Arithmetic::kMax:
      *out = std::max(a, b);
      return true;
    default:
      break;
  }
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  int64_t quotient = a / b, remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {  // towards minus infinity
    --quotient;
    remainder += b;
  }
  *out = operation == Arithmetic::kMod ? remainder : quotient;
  return true;
}

}  // namespace graphffi

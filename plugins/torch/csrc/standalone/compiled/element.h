// SPDX-License-Identifier: Apache-2.0
// Elements of tensors as numbers to calculate with. Compiled with the generated code.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

/// The type of sums of elements.
template <typename T>
using SumOf = std::conditional_t<std::is_integral_v<T>, int64_t,
                                 std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <typename T>
inline SumOf<T> Widen(T value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const uint32_t bits = uint32_t{value.bits} << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof(wide));
    return wide;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return c10::Half(value.bits, c10::Half::from_bits());
  } else {
    return value;
  }
}

template <typename Sum, typename T>
inline void Narrow(Sum value, T* to) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    to->bits = c10::BFloat16(static_cast<float>(value)).x;
  } else if constexpr (std::is_same_v<T, Float16>) {
    to->bits = c10::Half(static_cast<float>(value)).x;
  } else {
    *to = static_cast<T>(value);
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Element types of the kernels: bfloat16, its conversions, and functions that vectorise.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace llama {

/// The upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

/// Arithmetic happens in float32: elements are converted when loaded and stored.
inline float ToFloat(float value) { return value; }

inline float ToFloat(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

template <typename T>
T FromFloat(float value);

template <>
inline float FromFloat<float>(float value) {
  return value;
}

/// Rounds to nearest, ties to even; a NaN stays a NaN (made quiet). Has no branches, so that loops
/// vectorise.
template <>
inline BFloat16 FromFloat<BFloat16>(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const uint32_t quiet = bits | 0x00400000u;
  const uint32_t nan_mask = 0u - static_cast<uint32_t>((bits & 0x7fffffffu) > 0x7f800000u);
  return BFloat16{static_cast<uint16_t>(((rounded & ~nan_mask) | (quiet & nan_mask)) >> 16)};
}

/// exp(x) for x <= 0, in float32 within 2 units in the last place; below -87.3 it stays near 1e-38.
/// One comparison and no call: loops around it vectorise.
inline float ExpOfNegative(float x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  x = x < -87.3f ? -87.3f : x;
  // x = n ln 2 + r with |r| <= ln 2 / 2. Adding and taking away 1.5 * 2^23 rounds to an integer.
  constexpr float kRound = 12582912.0f;
  const float n = (x * kLog2E + kRound) - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;  // the polynomial of the Cephes library's expf
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float exp_r = p * r * r + r + 1.0f;
  const uint32_t power_bits = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &power_bits, sizeof(power));
  return exp_r * power;
}

/// x / (1 + exp(-x)).
inline float Silu(float x) {
  const float e = ExpOfNegative(-std::fabs(x));
  return x * (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

}  // namespace llama

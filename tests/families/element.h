// SPDX-License-Identifier: Apache-2.0
// Elements of any data type and layout, read and written as complex numbers.
#pragma once

#include <tvm/ffi/tvm_ffi.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>

namespace family {

using Number = std::complex<double>;

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

template <typename T>
Number Load(T value) {
  return static_cast<double>(value);
}
inline Number Load(std::complex<float> value) { return {value.real(), value.imag()}; }
inline Number Load(Float16 value) {
  const int exponent = (value.bits >> 10) & 31, mantissa = value.bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (value.bits >> 15) != 0 ? -size : size;
}
inline Number Load(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

/// Integers wrap around, all but complex numbers take the real part.
template <typename T>
void Store(Number value, T* to) {
  *to = static_cast<T>(static_cast<int64_t>(value.real()));
}
inline void Store(Number value, bool* to) { *to = value.real() != 0; }
inline void Store(Number value, float* to) { *to = static_cast<float>(value.real()); }
inline void Store(Number value, double* to) { *to = value.real(); }
inline void Store(Number value, std::complex<float>* to) {
  *to = {static_cast<float>(value.real()), static_cast<float>(value.imag())};
}
/// Rounds to the nearest, ties to even.
inline void Store(Number value, Float16* to) {
  const double size = std::fabs(value.real());
  int exponent = size == 0 ? -14 : std::max(std::ilogb(size), -14);
  int mantissa = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  if (mantissa == 2048) {
    ++exponent;
    mantissa = 1024;
  }
  int bits = mantissa < 1024 ? mantissa : ((exponent + 15) << 10) + mantissa - 1024;
  if (size >= 65520) bits = 31 << 10;
  to->bits = static_cast<uint16_t>(bits | (std::signbit(value.real()) ? 1 << 15 : 0));
}
inline void Store(Number value, BFloat16* to) {
  const float wide = static_cast<float>(value.real());
  uint32_t bits;
  std::memcpy(&bits, &wide, sizeof(bits));
  to->bits = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Calls `f` with a null pointer to the element type.
template <typename F>
void WithType(DLDataType dtype, const F& f) {
  switch (dtype.code * 1000 + dtype.bits) {
    case kDLFloat * 1000 + 16:
      return f(static_cast<Float16*>(nullptr));
    case kDLFloat * 1000 + 32:
      return f(static_cast<float*>(nullptr));
    case kDLFloat * 1000 + 64:
      return f(static_cast<double*>(nullptr));
    case kDLBfloat * 1000 + 16:
      return f(static_cast<BFloat16*>(nullptr));
    case kDLComplex * 1000 + 64:
      return f(static_cast<std::complex<float>*>(nullptr));
    case kDLBool * 1000 + 8:
      return f(static_cast<bool*>(nullptr));
    case kDLUInt * 1000 + 8:
      return f(static_cast<uint8_t*>(nullptr));
    case kDLInt * 1000 + 16:
      return f(static_cast<int16_t*>(nullptr));
    case kDLInt * 1000 + 32:
      return f(static_cast<int32_t*>(nullptr));
    case kDLInt * 1000 + 64:
      return f(static_cast<int64_t*>(nullptr));
  }
  TVM_FFI_THROW(TypeError) << "family: unexpected dtype";
}

/// A tensor's elements in row-major order.
struct Elements {
  const DLTensor* tensor;

  int64_t size() const {
    int64_t size = 1;
    for (int32_t d = 0; d < tensor->ndim; ++d) size *= tensor->shape[d];
    return size;
  }

  Number Get(int64_t i) const {
    Number value;
    WithType(tensor->dtype, [&](auto* type) { value = Load(*At(i, type)); });
    return value;
  }

  void Set(int64_t i, Number value) const {
    WithType(tensor->dtype, [&](auto* type) { Store(value, At(i, type)); });
  }

 private:
  template <typename T>
  T* At(int64_t i, T*) const {
    int64_t offset = 0, compact = 1;
    for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
      const int64_t stride = tensor->strides == nullptr ? compact : tensor->strides[d];
      offset += i % tensor->shape[d] * stride;
      i /= tensor->shape[d];
      compact *= tensor->shape[d];
    }
    return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset) + offset;
  }
};

}  // namespace family

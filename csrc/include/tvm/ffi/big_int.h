// SPDX-License-Identifier: Apache-2.0
// BigInt: an integer of any size. In an Any, an int if it fits int64_t and an object otherwise.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/big_int_detail.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/type_traits.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <istream>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Immutable but for assignment; numbers wrap nowhere. / and % truncate as C++'s do, floordiv and
/// floormod round down. Bits are those of two's complement, extended without end.
class BigInt {
 public:
  /// Words of two's complement, least significant first. Borrowed.
  class ArrayView {
   public:
    ArrayView(const int64_t* data, size_t size) : data_(data), size_(size) {}
    const int64_t& operator[](size_t i) const { return data_[i]; }
    size_t size() const { return size_; }

   private:
    const int64_t* data_;
    size_t size_;
  };

  BigInt() : data_(int64_t{0}) {}
  template <typename Int, typename = std::enable_if_t<std::is_integral_v<Int> && sizeof(Int) <= 8>>
  BigInt(Int value) {  // NOLINT(runtime/explicit)
    if (std::is_unsigned_v<Int> && static_cast<uint64_t>(value) >> 63 != 0) {
      *this = FromWords({static_cast<uint64_t>(value), 0});
    } else {
      data_ = static_cast<int64_t>(value);
    }
  }
  /// Towards zero. \throws Error(ValueError) for NaN, Error(OverflowError) for infinities
  explicit BigInt(double value);
  BigInt(const BigInt&) = default;
  BigInt& operator=(const BigInt&) = default;
  BigInt(BigInt&& other) noexcept : BigInt() { swap(other); }
  BigInt& operator=(BigInt&& other) noexcept {
    BigInt(std::move(other)).swap(*this);
    return *this;
  }
  void swap(BigInt& other) noexcept { std::swap(data_, other.data_); }

  explicit operator bool() const noexcept { return !IsInline() || Inline() != 0; }
  /// \throws Error(OverflowError) if it doesn't fit
  explicit operator int64_t() const {
    if (!IsInline()) TVM_FFI_THROW(OverflowError) << "BigInt does not fit int64_t";
    return Inline();
  }
  /// The nearest, ties to even. \throws Error(OverflowError) if it is beyond any finite double
  explicit operator double() const;
  /// Nothing if it doesn't fit Int.
  template <typename Int, typename = std::enable_if_t<std::is_integral_v<Int> && sizeof(Int) <= 8>>
  std::optional<Int> as() const {
    if (IsInline()) {
      bool too_low = Inline() < 0 && (std::is_unsigned_v<Int> ||
                                      Inline() < int64_t{std::numeric_limits<Int>::min()});
      bool too_high = Inline() > 0 &&
                      static_cast<uint64_t>(Inline()) > uint64_t{std::numeric_limits<Int>::max()};
      if (too_low || too_high) return std::nullopt;
      return static_cast<Int>(Inline());
    }
    std::vector<uint64_t> words = Words();
    if (std::is_signed_v<Int> || sizeof(Int) < 8 || words.size() > 2 || words[1] != 0) {
      return std::nullopt;
    }
    return static_cast<Int>(words[0]);
  }
  uint64_t hash() const {
    if (IsInline()) return static_cast<uint64_t>(Inline());
    TVMFFIByteArray bytes = Content();
    return detail::StableHashBytes(bytes.data, bytes.size);
  }

  friend BigInt operator+(const BigInt& value) { return value; }
  friend BigInt operator-(const BigInt& value) {
    detail::SignedMagnitude number = value.Number();
    number.negative = !number.negative && !number.magnitude.empty();
    return FromNumber(number);
  }
  friend BigInt operator~(const BigInt& value) { return -value - 1; }
  friend BigInt operator+(const BigInt& a, const BigInt& b) {
    int64_t sum = 0;
    if (AreInline(a, b) && !__builtin_add_overflow(a.Inline(), b.Inline(), &sum)) return sum;
    return FromNumber(detail::AddSigned(a.Number(), b.Number()));
  }
  friend BigInt operator-(const BigInt& a, const BigInt& b) {
    int64_t difference = 0;
    if (AreInline(a, b) && !__builtin_sub_overflow(a.Inline(), b.Inline(), &difference)) {
      return difference;
    }
    detail::SignedMagnitude negated = b.Number();
    negated.negative = !negated.negative;
    return FromNumber(detail::AddSigned(a.Number(), negated));
  }
  friend BigInt operator*(const BigInt& a, const BigInt& b) {
    int64_t product = 0;
    if (AreInline(a, b) && !__builtin_mul_overflow(a.Inline(), b.Inline(), &product)) {
      return product;
    }
    detail::SignedMagnitude x = a.Number();
    detail::SignedMagnitude y = b.Number();
    return FromNumber(
        {x.negative != y.negative, detail::MultiplyMagnitudes(x.magnitude, y.magnitude)});
  }
  /// \throws Error(ZeroDivisionError) as the others that divide
  friend BigInt operator/(const BigInt& a, const BigInt& b) { return Divide(a, b).first; }
  friend BigInt operator%(const BigInt& a, const BigInt& b) { return Divide(a, b).second; }
  friend BigInt truncdiv(const BigInt& a, const BigInt& b) { return a / b; }
  friend BigInt truncmod(const BigInt& a, const BigInt& b) { return a % b; }
  friend BigInt floordiv(const BigInt& a, const BigInt& b) {
    auto [quotient, remainder] = Divide(a, b);
    return remainder && remainder.IsNegative() != b.IsNegative() ? quotient - 1 : quotient;
  }
  friend BigInt floormod(const BigInt& a, const BigInt& b) {
    BigInt remainder = a % b;
    return remainder && remainder.IsNegative() != b.IsNegative() ? remainder + b : remainder;
  }
  friend BigInt operator&(const BigInt& a, const BigInt& b) {
    return Combine(a, b, [](uint64_t x, uint64_t y) { return x & y; });
  }
  friend BigInt operator|(const BigInt& a, const BigInt& b) {
    return Combine(a, b, [](uint64_t x, uint64_t y) { return x | y; });
  }
  friend BigInt operator^(const BigInt& a, const BigInt& b) {
    return Combine(a, b, [](uint64_t x, uint64_t y) { return x ^ y; });
  }
  /// \throws Error(ValueError) if count is negative, Error(OverflowError) if it is beyond memory
  friend BigInt operator<<(const BigInt& value, const BigInt& count);
  /// Rounds down. \throws Error(ValueError) if count is negative
  friend BigInt operator>>(const BigInt& value, const BigInt& count);

  friend bool operator==(const BigInt& a, const BigInt& b) { return Compare(a, b) == 0; }
  friend bool operator!=(const BigInt& a, const BigInt& b) { return Compare(a, b) != 0; }
  friend bool operator<(const BigInt& a, const BigInt& b) { return Compare(a, b) < 0; }
  friend bool operator<=(const BigInt& a, const BigInt& b) { return Compare(a, b) <= 0; }
  friend bool operator>(const BigInt& a, const BigInt& b) { return Compare(a, b) > 0; }
  friend bool operator>=(const BigInt& a, const BigInt& b) { return Compare(a, b) >= 0; }
  friend BigInt min(const BigInt& a, const BigInt& b) { return b < a ? b : a; }
  friend BigInt max(const BigInt& a, const BigInt& b) { return a < b ? b : a; }

  BigInt& operator+=(const BigInt& other) { return *this = *this + other; }
  BigInt& operator-=(const BigInt& other) { return *this = *this - other; }
  BigInt& operator*=(const BigInt& other) { return *this = *this * other; }
  BigInt& operator/=(const BigInt& other) { return *this = *this / other; }
  BigInt& operator%=(const BigInt& other) { return *this = *this % other; }
  BigInt& operator&=(const BigInt& other) { return *this = *this & other; }
  BigInt& operator|=(const BigInt& other) { return *this = *this | other; }
  BigInt& operator^=(const BigInt& other) { return *this = *this ^ other; }
  BigInt& operator<<=(const BigInt& other) { return *this = *this << other; }
  BigInt& operator>>=(const BigInt& other) { return *this = *this >> other; }
  BigInt& operator++() { return *this += 1; }
  BigInt& operator--() { return *this -= 1; }
  BigInt operator++(int) { return std::exchange(*this, *this + 1); }
  BigInt operator--(int) { return std::exchange(*this, *this - 1); }

  /// Decimal.
  friend std::ostream& operator<<(std::ostream& stream, const BigInt& value) {
    return stream << detail::ToDecimal(value.Number());
  }
  /// A sign and decimal digits; without digits the stream fails and value stays.
  friend std::istream& operator>>(std::istream& stream, BigInt& value);

 private:
  friend struct detail::AnyHolderTraits<BigInt>;
  friend struct detail::BigIntUnsafe;

  BigInt(UnsafeInit, Any data) : data_(std::move(data)) {}

  bool IsInline() const { return data_.type_index() == kTVMFFIInt; }
  static bool AreInline(const BigInt& a, const BigInt& b) { return a.IsInline() && b.IsInline(); }
  int64_t Inline() const { return detail::AnyUnsafe::TVMFFIAnyPtrFromAny(data_)->v_int64; }
  /// Of an object's words.
  TVMFFIByteArray Content() const {
    return TVMFFIBigIntGetContentByteArray(detail::AnyUnsafe::TVMFFIAnyPtrFromAny(data_));
  }
  std::vector<uint64_t> Words() const {
    if (IsInline()) return {static_cast<uint64_t>(Inline())};
    TVMFFIByteArray bytes = Content();
    std::vector<uint64_t> words(bytes.size / sizeof(uint64_t));
    std::memcpy(words.data(), bytes.data, bytes.size);
    return words;
  }
  detail::SignedMagnitude Number() const { return detail::SignedMagnitude::FromWords(Words()); }
  bool IsNegative() const { return IsInline() ? Inline() < 0 : Words().back() >> 63 != 0; }

  static BigInt FromWords(const std::vector<uint64_t>& words) {
    TVMFFIByteArray bytes = {reinterpret_cast<const char*>(words.data()),
                             words.size() * sizeof(uint64_t)};
    TVMFFIAny made;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFIBigIntFromByteArray(&bytes, &made));
    return BigInt(UnsafeInit{}, detail::AnyUnsafe::MoveTVMFFIAnyToAny(&made));
  }
  static BigInt FromNumber(const detail::SignedMagnitude& number) {
    return FromWords(number.ToWords());
  }

  static int Compare(const BigInt& a, const BigInt& b) {
    if (AreInline(a, b)) return a.Inline() < b.Inline() ? -1 : a.Inline() > b.Inline();
    detail::SignedMagnitude x = a.Number();
    detail::SignedMagnitude y = b.Number();
    if (x.negative != y.negative) return x.negative ? -1 : 1;
    int order = detail::CompareMagnitudes(x.magnitude, y.magnitude);
    return x.negative ? -order : order;
  }
  /// Quotient and remainder, towards zero.
  static std::pair<BigInt, BigInt> Divide(const BigInt& a, const BigInt& b) {
    if (!b) TVM_FFI_THROW(ZeroDivisionError) << "Division by zero";
    if (AreInline(a, b) && b.Inline() != -1) {
      return {a.Inline() / b.Inline(), a.Inline() % b.Inline()};
    }
    detail::SignedMagnitude x = a.Number();
    detail::SignedMagnitude y = b.Number();
    auto [quotient, remainder] = detail::DivideMagnitudes(x.magnitude, y.magnitude);
    return {FromNumber({x.negative != y.negative, std::move(quotient)}),
            FromNumber({x.negative, std::move(remainder)})};
  }
  template <typename F>
  static BigInt Combine(const BigInt& a, const BigInt& b, F combine) {
    std::vector<uint64_t> x = a.Words();
    std::vector<uint64_t> y = b.Words();
    size_t size = std::max(x.size(), y.size());
    x.resize(size, a.IsNegative() ? ~uint64_t{0} : 0);
    y.resize(size, b.IsNegative() ? ~uint64_t{0} : 0);
    for (size_t i = 0; i < size; ++i) x[i] = combine(x[i], y[i]);
    return FromWords(x);
  }
  void CheckIsShiftCount() const {
    if (IsNegative()) TVM_FFI_THROW(ValueError) << "Negative BigInt shift count";
  }

  /// An int or a big integer.
  Any data_;
};

namespace detail {

/// The words of a BigInt, unchecked.
struct BigIntUnsafe {
  static bool CheckInt64(const BigInt& value) { return value.IsInline(); }
  static int64_t GetInt64(const BigInt& value) { return value.Inline(); }
  static BigInt::ArrayView GetArrayView(const BigInt& value) {
    return GetArrayView(AnyUnsafe::TVMFFIAnyPtrFromAny(value.data_));
  }
  static BigInt::ArrayView GetArrayView(const int64_t& value) { return {&value, 1}; }
  static BigInt::ArrayView GetArrayView(const ObjectPtr<BigIntObj>& object) {
    return {GetMutableData(object), object->size_};
  }
  static BigInt::ArrayView GetArrayView(const TVMFFIAny* value) {
    if (value->type_index == kTVMFFIInt) return {&value->v_int64, 1};
    const auto* object = reinterpret_cast<const BigIntObj*>(value->v_obj);
    return {reinterpret_cast<const int64_t*>(object + 1), object->size_};
  }
  static int64_t* GetMutableData(const ObjectPtr<BigIntObj>& object) {
    return reinterpret_cast<int64_t*>(object.get() + 1);
  }
  static void ShrinkSize(const ObjectPtr<BigIntObj>& object, size_t size) { object->size_ = size; }
  /// The number that the words are, of as few words as it takes.
  static BigInt Normalize(ObjectPtr<BigIntObj> object) {
    const int64_t* words = GetMutableData(object);
    size_t size = object->size_;
    while (size > 1 && words[size - 1] == (words[size - 2] < 0 ? -1 : 0)) --size;
    if (size <= 1) return size == 0 ? 0 : words[0];
    ShrinkSize(object, size);
    return BigInt(UnsafeInit{}, Any(ObjectRef(std::move(object))));
  }
  /// Quotient and remainder, towards zero.
  static std::pair<BigInt, BigInt> Divide(const BigInt& a, const BigInt& b) {
    return BigInt::Divide(a, b);
  }
  static BigInt FromArrayView(const BigInt::ArrayView& view) {
    return BigInt::FromWords({&view[0], &view[0] + view.size()});
  }
};

/// Of words, which are at least one and no more than the number needs.
namespace int_ops {

inline bool IsNegative(const BigInt::ArrayView& view) { return view[view.size() - 1] < 0; }
inline bool IsNormalizedZero(const BigInt::ArrayView& view) {
  return view.size() == 1 && view[0] == 0;
}
/// \throws Error(ZeroDivisionError)
inline std::pair<BigInt, BigInt> DivRemFallback(const BigInt::ArrayView& a,
                                                const BigInt::ArrayView& b) {
  return BigIntUnsafe::Divide(BigIntUnsafe::FromArrayView(a), BigIntUnsafe::FromArrayView(b));
}

}  // namespace int_ops
}  // namespace detail

inline BigInt operator<<(const BigInt& value, const BigInt& count) {
  constexpr int64_t kMaxBits = int64_t{1} << 38;  // 32 GiB
  count.CheckIsShiftCount();
  if (!value) return value;
  if (count > kMaxBits) TVM_FFI_THROW(OverflowError) << "BigInt shift count is too large";
  detail::SignedMagnitude number = value.Number();
  number.magnitude =
      detail::ShiftMagnitude(number.magnitude, static_cast<uint64_t>(count.Inline()));
  return BigInt::FromNumber(number);
}

inline BigInt operator>>(const BigInt& value, const BigInt& count) {
  count.CheckIsShiftCount();
  std::vector<uint64_t> words = value.Words();
  uint64_t sign = value.IsNegative() ? ~uint64_t{0} : 0;
  if (count >= words.size() * 64) return value.IsNegative() ? -1 : 0;
  auto bits = static_cast<uint64_t>(count.Inline());
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(bits / 64));
  bits %= 64;
  for (size_t i = 0; bits != 0 && i < words.size(); ++i) {
    uint64_t next = i + 1 < words.size() ? words[i + 1] : sign;
    words[i] = words[i] >> bits | next << (64 - bits);
  }
  return BigInt::FromWords(words);
}

inline BigInt::BigInt(double value) : BigInt() {
  if (std::isnan(value)) TVM_FFI_THROW(ValueError) << "Cannot convert NaN to BigInt";
  if (std::isinf(value)) TVM_FFI_THROW(OverflowError) << "Cannot convert infinity to BigInt";
  int exponent = 0;
  double fraction = std::frexp(std::trunc(value), &exponent);
  if (exponent < 64) {
    data_ = static_cast<int64_t>(std::ldexp(fraction, exponent));
  } else {
    // A double has 53 bits, so that these 62 are a whole number.
    *this = BigInt(static_cast<int64_t>(std::ldexp(fraction, 62))) << exponent - 62;
  }
}

inline BigInt::operator double() const {
  if (IsInline()) return static_cast<double>(Inline());
  detail::SignedMagnitude number = Number();
  const detail::Magnitude& digits = number.magnitude;
  // The first 64 bits, the last of which says whether any other is set: a double has but 53.
  uint64_t top = 0;
  size_t used = std::min<size_t>(digits.size(), 2);
  for (size_t i = 0; i < used; ++i) top = top << 32 | digits[digits.size() - 1 - i];
  unsigned shift = 0;
  for (; top >> 63 == 0; ++shift) top <<= 1;
  uint32_t third = digits.size() > 2 ? digits[digits.size() - 3] : 0;
  if (shift != 0) top |= third >> (32 - shift);
  bool any_left = third << shift != 0;
  for (size_t i = 0; i + 3 < digits.size(); ++i) any_left = any_left || digits[i] != 0;
  if (any_left) top |= 1;
  double magnitude =
      digits.size() > 33
          ? HUGE_VAL
          : std::ldexp(static_cast<double>(top),
                       static_cast<int>(32 * (digits.size() - used)) - static_cast<int>(shift));
  if (std::isinf(magnitude)) {
    TVM_FFI_THROW(OverflowError) << "BigInt does not fit finite double";
  }
  return number.negative ? -magnitude : magnitude;
}

inline std::istream& operator>>(std::istream& stream, BigInt& value) {
  std::istream::sentry ready(stream);
  if (!ready) return stream;
  auto take = [&stream](auto accepts) {
    int next = stream.peek();
    if (next == std::istream::traits_type::eof() || !accepts(next)) return -1;
    return stream.get();
  };
  bool negative = take([](int next) { return next == '+' || next == '-'; }) == '-';
  auto is_digit = [](int next) { return next >= '0' && next <= '9'; };
  detail::SignedMagnitude number;
  bool has_digits = false;
  for (int digit = take(is_digit); digit >= 0; digit = take(is_digit)) {
    has_digits = true;
    number.magnitude = detail::MultiplyMagnitudes(number.magnitude, {10});
    number.magnitude =
        detail::AddMagnitudes(number.magnitude, {static_cast<uint32_t>(digit - '0')});
  }
  if (has_digits) {
    number.negative = negative && !number.magnitude.empty();
    value = BigInt::FromNumber(number);
    stream.clear(stream.rdstate() & ~std::ios::failbit);
  } else {
    stream.setstate(std::ios::failbit);
  }
  return stream;
}

template <>
inline constexpr bool use_default_type_traits_v<BigInt> = false;

/// Takes ints, too; a bool converts.
template <>
struct TypeTraits<BigInt> : detail::AnyHolderTraits<BigInt> {
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIInt || source->type_index == kTVMFFIBigInt;
  }
  static std::optional<BigInt> TryCastFromAnyView(const TVMFFIAny* source) {
    if (CheckAnyStrict(source)) return CopyFromAnyViewAfterCheck(source);
    if (source->type_index == kTVMFFIBool) return BigInt(source->v_int64);
    return std::nullopt;
  }
  static std::string TypeStr() { return "BigInt"; }
  static std::string TypeSchema() { return detail::SimpleSchema("ffi.BigInt"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

template <>
struct std::hash<tvm::ffi::BigInt> {
  size_t operator()(const tvm::ffi::BigInt& value) const {
    return static_cast<size_t>(value.hash());
  }
};

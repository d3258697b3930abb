// SPDX-License-Identifier: Apache-2.0
// big_int.h.
#include <tvm/ffi/big_int.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "header.h"

namespace {

BigInt Parse(const std::string& text) {
  std::istringstream stream(text);
  BigInt value;
  stream >> value;
  CHECK(!stream.fail());
  return value;
}

std::string Text(const BigInt& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

}  // namespace

TEST(big_ints_are_ints_while_they_fit) {
  BigInt limit = std::numeric_limits<int64_t>::max();
  CHECK_EQ(Any(limit).type_index(), int32_t{kTVMFFIInt});
  BigInt beyond = limit + 1;
  CHECK_EQ(Any(beyond).type_index(), int32_t{kTVMFFIBigInt});
  CHECK_EQ(Any(beyond - 1).type_index(), int32_t{kTVMFFIInt});
  CHECK_EQ(Text(beyond), "9223372036854775808");
  CHECK(beyond == BigInt(uint64_t{1} << 63) && -beyond == BigInt(INT64_MIN));
  CHECK_EQ(Text(BigInt(INT64_MIN) / -1), "9223372036854775808");
  BigInt moved = std::move(beyond);
  CHECK(!beyond && moved);
  CHECK(BigInt(true) == 1 && !BigInt());
  CHECK(moved.hash() == (limit + 1).hash() && std::hash<BigInt>()(BigInt(-1)) == SIZE_MAX);
}

TEST(big_int_arithmetic_satisfies_its_laws) {
  std::vector<BigInt> numbers;
  for (const char* text :
       {"0", "1", "-1", "4294967296", "-4294967295", "9223372036854775807", "-9223372036854775808",
        "18446744073709551615", "340282366920938463463374607431768211455",
        "-340282366920938463463374607431768211456", "170141183460469231731687303715884105728",
        "123456789012345678901234567890123456789012345678901234567890",
        "-39402006196394479212279040100143613804616026555213392216064"}) {
    numbers.push_back(Parse(text));
    CHECK_EQ(Text(numbers.back()), std::string(text));
  }
  for (const BigInt& a : numbers) {
    CHECK(~a == -a - 1 && (a ^ a) == 0 && (a & ~a) == 0 && (a | ~a) == -1);
    for (const BigInt& b : numbers) {
      CHECK(a + b - b == a && a - b == -(b - a) && (a + b) * (a - b) == a * a - b * b);
      CHECK((a & b) + (a | b) == a + b && (a ^ b) == (a | b) - (a & b));
      CHECK((a < b) + (a == b) + (a > b) == 1 && (a < b) == (b - a > 0));
      CHECK(min(a, b) + max(a, b) == a + b && min(a, b) <= max(a, b));
      if (!b) continue;
      CHECK(a / b * b + a % b == a && floordiv(a, b) * b + floormod(a, b) == a);
      BigInt magnitude = max(b, -b);
      CHECK(max(a % b, -(a % b)) < magnitude && (!(a % b) || (a % b < 0) == (a < 0)));
      CHECK(!floormod(a, b) || (floormod(a, b) < 0) == (b < 0));
      CHECK((a * b + a % b) / b == a || (a < 0) == (b < 0) || a % b);
    }
    for (int64_t bits : {0, 1, 31, 32, 63, 64, 65, 200}) {
      BigInt power = BigInt(1) << bits;
      CHECK(a << bits == a * power && a >> bits == floordiv(a, power));
    }
  }
}

TEST(big_ints_divide_where_a_guessed_digit_is_wrong) {
  BigInt ones = (BigInt(1) << 128) - 1;
  BigInt divisor = (BigInt(1) << 95) + (BigInt(1) << 64) - 1;
  CHECK(ones / divisor * divisor + ones % divisor == ones && ones % divisor < divisor);
  BigInt numerator = (BigInt(0x7FFFFFFF) << 96) + (BigInt(0x80000000) << 64);
  BigInt denominator = (BigInt(0x80000000) << 64) + 1;
  CHECK_EQ(Text(numerator / denominator), "4294967294");
  CHECK(numerator % denominator == numerator - denominator * 4294967294);
}

TEST(big_ints_convert_to_numbers_that_hold_them) {
  CHECK(BigInt(200).as<int8_t>() == std::nullopt && BigInt(200).as<uint8_t>() == 200);
  CHECK(BigInt(-1).as<uint64_t>() == std::nullopt && BigInt(-128).as<int8_t>() == -128);
  BigInt word = (BigInt(1) << 64) - 1;
  CHECK(word.as<uint64_t>() == UINT64_MAX && !word.as<int64_t>() && !word.as<uint32_t>());
  CHECK(!(word + 1).as<uint64_t>() && !(-word).as<uint64_t>());
  CHECK_EQ(Message([&] { static_cast<int64_t>(word); }),
           "OverflowError: BigInt does not fit int64_t");
  for (double value : {0.0, -1.9, 9007199254740993.0, 0x1p63, -0x1p63, -0x1.8p64, 0x1.fp900}) {
    CHECK_EQ(static_cast<double>(BigInt(value)), std::trunc(value));
  }
  CHECK_EQ(static_cast<double>((BigInt(1) << 100) + (BigInt(1) << 47)), 0x1p100);
  CHECK_EQ(static_cast<double>((BigInt(1) << 100) + (BigInt(1) << 47) + 1), 0x1.0000000000001p100);
  CHECK_EQ(static_cast<double>((BigInt(1) << 64) + (BigInt(1) << 11)), 0x1p64);
  CHECK_EQ(static_cast<double>((BigInt(1) << 64) + (BigInt(1) << 11) + 1), 0x1.0000000000001p64);
  CHECK_EQ(Message([] { static_cast<double>((BigInt(1) << 1024) - 1); }),
           "OverflowError: BigInt does not fit finite double");
  CHECK_EQ(Message([] { BigInt nan(std::nan("")); }), "ValueError: Cannot convert NaN to BigInt");
  CHECK_EQ(Message([] { BigInt infinity(HUGE_VAL); }),
           "OverflowError: Cannot convert infinity to BigInt");
}

TEST(big_ints_refuse_what_has_no_result) {
  BigInt big = BigInt(1) << 70;
  CHECK_EQ(Message([&] { big / 0; }), "ZeroDivisionError: Division by zero");
  CHECK_EQ(Message([&] { floormod(big, 0); }), "ZeroDivisionError: Division by zero");
  CHECK_EQ(Message([&] { big << -1; }), "ValueError: Negative BigInt shift count");
  CHECK_EQ(Message([&] { big >> -big; }), "ValueError: Negative BigInt shift count");
  CHECK_EQ(Message([&] { big << big; }), "OverflowError: BigInt shift count is too large");
  CHECK((BigInt(0) << big) == 0 && (big >> big) == 0 && (-big >> big) == -1);
  std::istringstream stream("-x");
  BigInt value = 7;
  stream >> value;
  CHECK(stream.fail() && value == 7);
}

TEST(functions_take_and_return_big_ints) {
  Function square = Function::FromTyped([](const BigInt& x) { return x * x; }, "square");
  CHECK_EQ(square(BigInt(1) << 40).type_index(), int32_t{kTVMFFIBigInt});
  CHECK(square(BigInt(1) << 40).cast<BigInt>() == BigInt(1) << 80);
  CHECK_EQ(square(3).cast<int>(), 9);
  CHECK_EQ(square(true).cast<int>(), 1);
  CHECK_EQ(Message([&] { square(String("x")); }),
           "TypeError: Mismatched type on argument #0 when calling: `square(0: BigInt) -> "
           "BigInt`. Expected `BigInt` but got `ffi.SmallStr`");
  Any value = BigInt(1) << 80;
  CHECK(!value.try_cast<int64_t>().has_value());
  CHECK(value.as<BigInt>().value() == BigInt(1) << 80 && !Any(1.5).as<BigInt>().has_value());
  BigInt counted = value.cast<BigInt>();
  BigInt old = counted++;
  CHECK(counted - old == 1 && --counted == old);
}

TEST(big_ints_are_made_of_words) {
  using detail::BigIntUnsafe;
  const BigInt large = BigInt(1) << 64;
  CHECK(!BigIntUnsafe::CheckInt64(large) && BigIntUnsafe::CheckInt64(-5));
  CHECK_EQ(BigIntUnsafe::GetInt64(BigInt(-5)), int64_t{-5});
  const BigInt::ArrayView words = BigIntUnsafe::GetArrayView(large);
  CHECK_EQ(words.size(), size_t{2});
  CHECK(words[0] == 0 && words[1] == 1);
  auto object = make_inplace_array_object<detail::BigIntObj, int64_t>(4, 4);
  const int64_t given[] = {7, -1, -1, -1};
  std::copy_n(given, 4, BigIntUnsafe::GetMutableData(object));
  const BigInt made = BigIntUnsafe::Normalize(std::move(object));
  CHECK(made == BigInt(7) - large);
  CHECK_EQ(BigIntUnsafe::GetArrayView(made).size(), size_t{2});
  auto zeros = make_inplace_array_object<detail::BigIntObj, int64_t>(3, 3);
  std::fill_n(BigIntUnsafe::GetMutableData(zeros), 3, 0);
  CHECK(BigIntUnsafe::CheckInt64(BigIntUnsafe::Normalize(std::move(zeros))));
  const BigInt two = 2;
  const BigInt::ArrayView divisor = BigIntUnsafe::GetArrayView(two);
  auto [quotient, remainder] = detail::int_ops::DivRemFallback(words, divisor);
  CHECK(quotient == large / 2 && remainder == large % 2);
  CHECK(!detail::int_ops::IsNegative(words) && !detail::int_ops::IsNormalizedZero(words));
  const BigInt zero;
  CHECK(detail::int_ops::IsNormalizedZero(BigIntUnsafe::GetArrayView(zero)));
  const BigInt negative = -large;
  CHECK(detail::int_ops::IsNegative(BigIntUnsafe::GetArrayView(negative)));
}

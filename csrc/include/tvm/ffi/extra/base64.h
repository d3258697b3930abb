// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, section 4, with padding).
#pragma once

#include <tvm/ffi/string.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

inline constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace detail

inline String Base64Encode(TVMFFIByteArray bytes) {
  std::string text;
  text.reserve((bytes.size + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size; i += 3) {
    uint32_t group = 0;
    for (size_t j = i; j < i + 3; ++j) {
      group = group << 8 | (j < bytes.size ? static_cast<unsigned char>(bytes.data[j]) : 0);
    }
    size_t num_digits = bytes.size - i < 3 ? bytes.size - i + 1 : 4;
    for (size_t digit = 0; digit < 4; ++digit) {
      text += digit < num_digits ? detail::kBase64Digits[group >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return String(text);
}
inline String Base64Encode(const Bytes& bytes) {
  return Base64Encode(TVMFFIByteArray{bytes.data(), bytes.size()});
}

/// \throws Error(ValueError) for text that is no Base64
inline Bytes Base64Decode(TVMFFIByteArray text) {
  std::string_view digits(text.data, text.size);
  TVM_FFI_CHECK(digits.size() % 4 == 0, ValueError)
      << "invalid base64: the length " << digits.size() << " is no multiple of 4";
  for (int i = 0; i < 2 && !digits.empty() && digits.back() == '='; ++i) digits.remove_suffix(1);
  std::string bytes;
  bytes.reserve(digits.size() * 3 / 4);
  uint32_t group = 0;
  int num_bits = 0;
  for (char digit : digits) {
    size_t value = detail::kBase64Digits.find(digit);
    TVM_FFI_CHECK(value != std::string_view::npos, ValueError)
        << "invalid base64: unexpected character " << static_cast<int>(digit);
    group = group << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>(group >> num_bits & 0xFF);
    }
  }
  return Bytes(bytes);
}
inline Bytes Base64Decode(const String& text) {
  return Base64Decode(TVMFFIByteArray{text.data(), text.size()});
}
}  // namespace graphffi_v1
}  // namespace tvm::ffi

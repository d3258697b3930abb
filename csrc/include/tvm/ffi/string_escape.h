// SPDX-License-Identifier: Apache-2.0
// EscapedStringPy: text as a string literal of Python.
#pragma once

#include <tvm/ffi/string.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// The code point that text begins with and how many bytes it takes: 0 bytes if they are no UTF-8.
struct CodePoint {
  explicit CodePoint(std::string_view text) {
    auto lead = static_cast<unsigned char>(text[0]);
    size_t count = (lead & 0xE0) == 0xC0   ? 2
                   : (lead & 0xF0) == 0xE0 ? 3
                   : (lead & 0xF8) == 0xF0 ? 4
                                           : 0;
    if (count == 0 || text.size() < count) return;
    value = lead & (0xFF >> (count + 1));
    for (size_t i = 1; i < count; ++i) {
      auto next = static_cast<unsigned char>(text[i]);
      if ((next & 0xC0) != 0x80) return;
      value = value << 6 | (next & 0x3F);
    }
    num_bytes = count;
  }
  uint32_t value = 0;
  size_t num_bytes = 0;
};

/// The length of the terminal control sequence (colour, erase) that text begins with, else 0.
inline size_t ControlSequenceLength(std::string_view text) {
  if (text.substr(0, 2) != "\x1b[") return 0;
  size_t end = text.find_first_not_of("0123456789;", 2);
  if (end == std::string_view::npos || (text[end] != 'm' && text[end] != 'K')) return 0;
  return end + 1;
}

template <typename... Args>
void AppendFormatted(std::string* out, const char* format, Args... args) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), format, args...);
  out->append(buffer);
}

}  // namespace detail

/// The text in double quotes as Python would read it: ASCII only, with \x, \u and \U escapes.
inline String EscapedStringPy(const String& text) {
  constexpr std::string_view kSpecial = "\n\t\r\\\"";
  constexpr std::string_view kLetter = "ntr\\\"";
  std::string literal = "\"";
  std::string_view rest = text;
  while (!rest.empty()) {
    auto byte = static_cast<unsigned char>(rest[0]);
    size_t used = 1;
    if (size_t length = detail::ControlSequenceLength(rest)) {
      used = length;
      literal.append("\\x1b").append(rest.substr(1, length - 1));
    } else if (size_t special = kSpecial.find(rest[0]); special != std::string_view::npos) {
      literal.append({'\\', kLetter[special]});
    } else if (detail::CodePoint point(rest); byte >= 0x80 && point.num_bytes > 0) {
      used = point.num_bytes;
      detail::AppendFormatted(&literal, used == 4 ? "\\U%08x" : "\\u%04x", point.value);
    } else if (byte < 0x20 || byte >= 0x7F) {
      detail::AppendFormatted(&literal, "\\x%02x", static_cast<unsigned>(byte));
    } else {
      literal += rest[0];
    }
    rest = rest.substr(used);
  }
  return literal + "\"";
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

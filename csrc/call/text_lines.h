// SPDX-License-Identifier: Apache-2.0
// Texts of calls in programs: a line with the format, then lines of a name and a value.
// graphffi/_frameworks/text_lines.py writes them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace graphffi {

struct TextLine {
  std::string_view name;  ///< borrowed from the text
  std::string value;
};

/// The lines behind that of the format. \throws Error(ValueError) for another format
std::vector<TextLine> ReadTextLines(std::string_view text, std::string_view format);

/// \throws Error(ValueError) about a part of such a text
[[noreturn]] void FailInText(std::string_view part, const std::string& expected,
                             const std::string& got);

/// The number that all of the text is; nothing if it is none.
template <typename T>
std::optional<T> NumberIn(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

/// An int64_t or a double. \throws Error(ValueError)
template <typename T>
T ReadTextNumber(std::string_view part, std::string_view text);

}  // namespace graphffi

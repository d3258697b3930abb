// SPDX-License-Identifier: Apache-2.0
// Texts of calls in programs: a line with the format, then lines of a name and a value.
// graphffi/_frameworks/text_lines.py writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

/// An int64_t or a double. \throws Error(ValueError)
template <typename T>
T ReadTextNumber(std::string_view part, std::string_view text);

}  // namespace graphffi

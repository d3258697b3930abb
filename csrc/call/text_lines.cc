// SPDX-License-Identifier: Apache-2.0
#include "call/text_lines.h"

#include <algorithm>

#include "call/error.h"

namespace graphffi {

namespace {

/// `\n` is a new line, `\\` a backslash.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size();
    if (is_escape) ++i;
    out += is_escape && text[i] == 'n' ? '\n' : text[i];
  }
  return out;
}

}  // namespace

void FailInText(std::string_view part, const std::string& expected, const std::string& got) {
  throw Error("ValueError", "the text of the call: " + std::string(part) + ": expected " +
                                expected + ", got '" + got + "'");
}

template <typename T>
T ReadTextNumber(std::string_view part, std::string_view text) {
  const auto number = NumberIn<T>(text);
  if (!number) FailInText(part, "a number of 64 bits", std::string(text));
  return *number;
}
template int64_t ReadTextNumber(std::string_view part, std::string_view text);
template double ReadTextNumber(std::string_view part, std::string_view text);

std::vector<TextLine> ReadTextLines(std::string_view text, std::string_view format) {
  const std::string_view found = text.substr(0, text.find('\n'));
  if (found != format) {
    throw Error("ValueError", "the text of the call: expected the format '" + std::string(format) +
                                  "', got '" + std::string(found) + "'; export again");
  }
  std::vector<TextLine> lines;
  while (text.find('\n') != std::string_view::npos) {
    text.remove_prefix(text.find('\n') + 1);
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::string_view name = line.substr(0, line.find(' '));
    lines.push_back({name, Unescaped(line.substr(std::min(name.size() + 1, line.size())))});
  }
  return lines;
}

}  // namespace graphffi

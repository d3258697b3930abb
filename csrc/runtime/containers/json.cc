// SPDX-License-Identifier: Apache-2.0
// ffi.json.Parse and ffi.json.Stringify, written against the headers that kernels use.
#include <locale.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/reflection/registry.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "contents.h"

namespace graphffi::runtime {
namespace {

/// Deeper values are refused: reading and writing them recurses.
constexpr int kMaxDepth = 1000;

struct Literal {
  std::string_view text;
  Any value;
};

/// Reads one JSON text. Messages and positions are those of Python's json module.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Any Parse() {
    SkipSpace();
    Any value = ParseValue();
    SkipSpace();
    if (at_ != text_.size()) Fail("Extra data", at_);
    return value;
  }

 private:
  [[noreturn]] void Fail(const char* message, size_t position) const {
    std::string_view before = text_.substr(0, position);
    size_t line = 1;
    for (char c : before) line += c == '\n';
    size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
    TVM_FFI_THROW(ValueError) << message << ": line " << line << " column " << position - begin + 1
                              << " (char " << position << ")";
    TVM_FFI_UNREACHABLE();
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Skip(char expected) {
    if (at_ == text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }
  void SkipSpace() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }

  Any ParseValue() {
    switch (Peek()) {
      case '"':
        return ParseString();
      case '[':
        return Nested(&Parser::ParseArray);
      case '{':
        return Nested(&Parser::ParseObject);
      default:
        return ParseWord();
    }
  }

  Any Nested(Any (Parser::*parse)()) {
    if (++depth_ > kMaxDepth) Fail("Nesting too deep", at_);
    Any value = (this->*parse)();
    --depth_;
    return value;
  }

  Any ParseArray() {
    ++at_;
    ffi::Array<Any> array;
    SkipSpace();
    if (Skip(']')) return array;
    while (true) {
      SkipSpace();
      array.push_back(ParseValue());
      SkipSpace();
      if (Skip(']')) return array;
      if (!Skip(',')) Fail("Expecting ',' delimiter", at_);
    }
  }

  Any ParseObject() {
    ++at_;
    ffi::Map<Any, Any> object;
    SkipSpace();
    if (Skip('}')) return object;
    while (true) {
      SkipSpace();
      if (Peek() != '"') Fail("Expecting property name enclosed in double quotes", at_);
      ffi::String key = ParseString();
      SkipSpace();
      if (!Skip(':')) Fail("Expecting ':' delimiter", at_);
      SkipSpace();
      object.Set(key, ParseValue());
      SkipSpace();
      if (Skip('}')) return object;
      if (!Skip(',')) Fail("Expecting ',' delimiter", at_);
    }
  }

  ffi::String ParseString() {
    size_t begin = at_++;
    std::string text;
    while (true) {
      if (at_ == text_.size()) Fail("Unterminated string starting at", begin);
      char c = text_[at_];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) Fail("Invalid control character at", at_);
      ++at_;
      if (c == '\\') {
        ParseEscape(begin, &text);
      } else {
        text += c;
      }
    }
    ++at_;
    return ffi::String(std::move(text));
  }

  /// Reads the characters after a backslash.
  void ParseEscape(size_t begin, std::string* text) {
    if (at_ == text_.size()) Fail("Unterminated string starting at", begin);
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (size_t i = kLetters.find(text_[at_]); i != std::string_view::npos) {
      ++at_;
      *text += kMeanings[i];
    } else if (text_[at_] == 'u') {
      AppendUtf8(ParseCodePoint(), text);
    } else {
      Fail("Invalid \\escape", at_);
    }
  }

  uint32_t ParseCodePoint() {
    size_t begin = at_;
    uint32_t high = ParseUnit(at_);
    if (high < 0xD800 || high > 0xDFFF) return high;
    constexpr const char* kMessage = "Invalid surrogate pair of \\uXXXX escapes";
    if (high > 0xDBFF || !Skip('\\') || Peek() != 'u') Fail(kMessage, begin);
    uint32_t low = ParseUnit(at_ + 1);
    if (low < 0xDC00 || low > 0xDFFF) Fail(kMessage, begin);
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  /// `uXXXX`
  uint32_t ParseUnit(size_t error_position) {
    uint32_t unit = 0;
    std::string_view digits = text_.substr(at_ + 1, 4);
    auto result = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() != 4 || result.ptr != digits.data() + 4) {
      Fail("Invalid \\uXXXX escape", error_position);
    }
    at_ += 5;
    return unit;
  }

  static void AppendUtf8(uint32_t point, std::string* text) {
    auto append = [&](uint32_t byte) { *text += static_cast<char>(byte); };
    if (point < 0x80) return append(point);
    int num_more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    append((0xFF00 >> (num_more + 1) & 0xFF) | point >> 6 * num_more);
    while (num_more-- > 0) append(0x80 | (point >> 6 * num_more & 0x3F));
  }

  /// A number or a name.
  Any ParseWord() {
    static const auto* const literals = new Literal[]{
        {"null", nullptr}, {"true", true},         {"false", false},
        {"NaN", NAN},      {"Infinity", INFINITY}, {"-Infinity", -INFINITY},
    };
    std::string_view rest = text_.substr(at_);
    for (int i = 0; i < 6; ++i) {
      if (rest.substr(0, literals[i].text.size()) == literals[i].text) {
        at_ += literals[i].text.size();
        return literals[i].value;
      }
    }
    std::string_view number = rest.substr(0, rest.find_first_not_of("+-.0123456789eE"));
    Any value = ParseNumber(number);
    if (value == nullptr) Fail("Expecting value", at_);
    at_ += number.size();
    return value;
  }

  /// None if text is no number. Integers beyond 64 bits become floats, as do fractions.
  static Any ParseNumber(std::string_view text) {
    const char* end = text.data() + text.size();
    int64_t integer = 0;
    auto result = std::from_chars(text.data(), end, integer);
    if (result.ec == std::errc() && result.ptr == end) return integer;
    double real = 0;
    result = std::from_chars(text.data(), end, real);
    if (text.empty() || text[0] == '+' || text[0] == '.' || result.ptr != end) return nullptr;
    if (result.ec == std::errc::result_out_of_range) {
      static const locale_t kPoint = newlocale(LC_ALL_MASK, "C", nullptr);  // no decimal comma
      real = strtod_l(std::string(text).c_str(), nullptr, kPoint);          // an infinity or zero
    } else if (result.ec != std::errc()) {
      return nullptr;
    }
    return real;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

/// Writes one value.
class Writer {
 public:
  explicit Writer(ffi::Optional<int> indent) : indent_(indent.value_or(0)) {}

  std::string Write(const Any& value) {
    WriteValue(value);
    return std::move(out_);
  }

 private:
  void WriteValue(const Any& value) {
    if (value == nullptr) {
      out_ += "null";
    } else if (auto flag = value.as<bool>()) {
      out_ += *flag ? "true" : "false";
    } else if (auto integer = value.as<int64_t>()) {
      out_ += std::to_string(*integer);
    } else if (auto real = value.as<double>()) {
      WriteFloat(*real);
    } else if (auto text = value.as<ffi::String>()) {
      out_ += EscapeStringJSON(*text);
    } else {
      WriteContainer(value);
    }
  }

  void WriteFloat(double value) {
    if (std::isnan(value)) {
      out_ += "NaN";
    } else if (std::isinf(value)) {
      out_ += value < 0 ? "-Infinity" : "Infinity";
    } else {
      char digits[32];
      auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
      std::string_view text(digits, static_cast<size_t>(end - digits));
      out_ += text;
      if (text.find_first_of(".e") == std::string_view::npos) out_ += ".0";
    }
  }

  void WriteContainer(const Any& value) {
    if (++depth_ > kMaxDepth) TVM_FFI_THROW(ValueError) << "JSON: nesting too deep or a cycle";
    switch (value.type_index()) {
      case kTVMFFIArray:
      case kTVMFFIList:
        WriteItems(Items(value));
        break;
      case kTVMFFIMap:
      case kTVMFFIDict:
        WriteEntries(Entries(value));
        break;
      default:
        TVM_FFI_THROW(ValueError) << "Unsupported type: `" << value.GetTypeKey() << "`";
    }
    --depth_;
  }

  void WriteItems(Items items) {
    out_ += '[';
    const char* separator = "";
    for (const Any& item : items) {
      out_ += separator;
      separator = ",";
      NewLine(depth_);
      WriteValue(item);
    }
    if (!items.empty()) NewLine(depth_ - 1);
    out_ += ']';
  }

  void WriteEntries(Entries entries) {
    out_ += '{';
    const char* separator = "";
    for (const auto& [key, value] : entries) {
      auto name = key.as<ffi::String>();
      if (!name.has_value()) {
        TVM_FFI_THROW(ValueError) << "Expect key to be string, got `" << key.GetTypeKey() << "`";
      }
      out_ += separator;
      separator = ",";
      NewLine(depth_);
      out_ += EscapeStringJSON(*name);
      out_ += indent_ == 0 ? ":" : ": ";
      WriteValue(value);
    }
    if (!entries.empty()) NewLine(depth_ - 1);
    out_ += '}';
  }

  void NewLine(int depth) {
    if (indent_ == 0) return;
    out_ += '\n';
    if (indent_ > 0) out_.append(static_cast<size_t>(indent_) * static_cast<size_t>(depth), ' ');
  }

  int indent_;  // 0: all in one line; negative: lines without it
  int depth_ = 0;
  std::string out_;
};

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef()
      .def("ffi.json.Parse", [](const ffi::String& text) { return Parser(text).Parse(); })
      .def("ffi.json.Stringify", [](const Any& value, ffi::Optional<int> indent) {
        return ffi::String(Writer(indent).Write(value));
      });
}

}  // namespace
}  // namespace graphffi::runtime

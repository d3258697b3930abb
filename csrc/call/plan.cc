// SPDX-License-Identifier: Apache-2.0
#include "call/plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "call/arithmetic.h"
#include "call/error.h"
#include "call/value.h"

namespace graphffi {

namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool IsNamePart(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

/// Recursive descent over the text; appends to the plan as it goes.
class PlanParser {
 public:
  PlanParser(std::string_view text, const Plan::Names& names, std::string_view subject, Plan* plan)
      : text_(text), names_(names), subject_(subject), plan_(plan) {}

  void Run() {
    SkipSpace();
    if (AtEnd()) {
      Emit(Plan::Op::kAllInputs);
      Emit(Plan::Op::kAllOutputs);
      return;
    }
    ParseItems(0);
    if (!AtEnd()) Fail("an unexpected '" + std::string(1, text_[pos_]) + "'");
  }

 private:
  [[noreturn]] void Fail(const std::string& got) const {
    std::string message(subject_);
    message += ": plan '" + std::string(text_) + "': expected an item at character " +
               std::to_string(pos_) + ", got " + got;
    throw Error("ValueError", message);
  }

  [[noreturn]] void FailUnknown(std::string_view name) const {
    std::string message(subject_);
    message += ": plan '" + std::string(text_) + "': expected a known name, got '" +
               std::string(name) + "'; known names: ";
    std::string known;
    for (const auto* group : {&names_.inputs, &names_.outputs, &names_.attributes}) {
      for (const std::string& candidate : *group) known += candidate + ", ";
    }
    throw Error("ValueError", message + known + "*inputs, *outputs, stream, workspace, None");
  }

  bool AtEnd() const { return pos_ >= text_.size(); }
  void SkipSpace() {
    while (!AtEnd() && std::isspace(static_cast<unsigned char>(text_[pos_]))) ++pos_;
  }
  /// Skips space, then takes `c` if it is next.
  bool Take(char c) {
    SkipSpace();
    if (AtEnd() || text_[pos_] != c) return false;
    ++pos_;
    SkipSpace();
    return true;
  }

  void Emit(Plan::Op op, int32_t index = 0, Plan::Conversion conversion = {}) {
    plan_->items_.push_back({op, conversion, index});
  }
  void EmitConstant(TVMFFIAny value) {
    Emit(Plan::Op::kConstant, static_cast<int32_t>(plan_->constants_.size()));
    plan_->constants_.push_back(value);
  }

  void ParseItems(int depth) {
    do {
      ParseItem(depth);
    } while (Take(','));
  }

  void ParseItem(int depth) {
    SkipSpace();
    if (AtEnd()) Fail("the end of the text");
    const char c = text_[pos_];
    if (c == '(') return ParseArray(depth);
    if (c == '"') return ParseString();
    if (c == '*') return ParseAll();
    if (IsNameStart(c)) return ParseName();
    if (IsDigit(c) || c == '-' || c == '+' || c == '.') {
      return ParseNumber();
    }
    Fail("'" + std::string(1, c) + "'");
  }

  void ParseArray(int depth) {
    if (depth >= kMaxArrayDepth) {
      Fail("more than " + std::to_string(kMaxArrayDepth) + " nested lists");
    }
    ++pos_;
    Emit(Plan::Op::kBeginArray);
    if (!Take(')')) {
      while (true) {
        ParseItem(depth + 1);
        if (Take(')')) break;
        if (!Take(',')) Fail(AtEnd() ? "the end of the text; ')' is missing" : "no ',' or ')'");
        if (Take(')')) break;  // (a,)
      }
    }
    Emit(Plan::Op::kEndArray);
  }

  std::string_view TakeName() {
    const size_t begin = pos_;
    while (!AtEnd() && IsNamePart(text_[pos_])) ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  void ParseAll() {
    ++pos_;
    const std::string_view name = TakeName();
    if (name == "inputs") return Emit(Plan::Op::kAllInputs);
    if (name == "outputs") return Emit(Plan::Op::kAllOutputs);
    FailUnknown("*" + std::string(name));
  }

  static std::optional<int32_t> Find(const std::vector<std::string>& names, std::string_view name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return std::nullopt;
    return static_cast<int32_t>(found - names.begin());
  }

  void ParseName() {
    const std::string_view name = TakeName();
    const size_t after_name = pos_;
    if (Take('(')) return ParseConversion(name);
    pos_ = after_name;
    // An operand or attribute may be called like a keyword: it wins.
    if (auto i = Find(names_.inputs, name)) return Emit(Plan::Op::kInput, *i);
    if (auto i = Find(names_.outputs, name)) return Emit(Plan::Op::kOutput, *i);
    if (auto i = Find(names_.attributes, name)) return Emit(Plan::Op::kAttribute, *i);
    if (name == "None") return EmitConstant(TVMFFIAny{});
    if (name == "true" || name == "True") return EmitConstant(ToAny(true));
    if (name == "false" || name == "False") return EmitConstant(ToAny(false));
    if (name == "inf") return EmitConstant(ToAny(std::numeric_limits<double>::infinity()));
    if (name == "nan") return EmitConstant(ToAny(std::numeric_limits<double>::quiet_NaN()));
    if (name == "stream") return Emit(Plan::Op::kStream);
    if (name == "workspace") return Emit(Plan::Op::kWorkspace, Plan::kNoSize);
    FailUnknown(name);
  }

  void ParseConversion(std::string_view conversion) {
    if (conversion == "int") return ParseInt();
    if (conversion == "strided") return ParseStrided();
    const bool is_workspace = conversion == "workspace";
    const Plan::Op op = is_workspace ? Plan::Op::kWorkspace : Plan::Op::kAttribute;
    const Plan::Conversion kind = Plan::ConversionOf(conversion);
    if (!is_workspace && kind == Plan::Conversion::kNone) {
      FailUnknown(std::string(conversion) + "()");
    }
    if (is_workspace && !AtEnd() && IsDigit(text_[pos_])) {
      ParseNumber();
      plan_->items_.back() = {op, Plan::Conversion::kInt, plan_->items_.back().index};
      return ExpectClosed();
    }
    const std::string_view name = TakeName();
    const auto index = Find(names_.attributes, name);
    if (!index) FailUnknown(name);
    Emit(op, *index, kind);
    ExpectClosed();
  }

  void ParseStrided() {
    const std::string_view name = TakeName();
    const auto input = Find(names_.inputs, name), output = Find(names_.outputs, name);
    if (!input && !output) FailUnknown(name);
    Emit(input ? Plan::Op::kInput : Plan::Op::kOutput, input ? *input : *output,
         Plan::Conversion::kStrided);
    ExpectClosed();
  }

  void ParseInt() {
    if (text_.substr(pos_, 7) == "stream)") {
      TakeName();
      Emit(Plan::Op::kStream, 0, Plan::Conversion::kInt);
    } else {
      ParseTerm(0);
    }
    ExpectClosed();
  }

  /// A value of arithmetic: what it computes with comes first.
  void ParseTerm(int depth) {
    SkipSpace();
    if (depth > kMaxTermDepth) {
      Fail("more than " + std::to_string(kMaxTermDepth) + " nested operations");
    }
    if (depth > 0 && !AtEnd() && !IsNameStart(text_[pos_])) return ParseNumber();
    const std::string_view name = TakeName();
    if (!Take('(')) {
      if (depth == 0) FailUnknown("int()");
      const auto index = Find(names_.attributes, name);
      if (!index) FailUnknown(name);
      return Emit(Plan::Op::kAttribute, *index);
    }
    if (name == "numel" || name == "ndim" || name == "size") return ParseSize(name);
    const std::optional<Arithmetic> operation = ArithmeticOf(name);
    if (!operation) FailUnknown(std::string(name) + "()");
    ParseTerm(depth + 1);
    if (!Take(',')) Fail("no ','");
    ParseTerm(depth + 1);
    ExpectClosed();
    Emit(Plan::Op::kArithmetic, static_cast<int32_t>(*operation));
  }

  void ParseSize(std::string_view of) {
    const std::string_view name = TakeName();
    const auto input = Find(names_.inputs, name), output = Find(names_.outputs, name);
    if (!input && !output) FailUnknown(name);
    Plan::Size size{input ? Plan::Op::kInput : Plan::Op::kOutput, input ? *input : *output,
                    of == "ndim" ? Plan::Size::kNDim : Plan::Size::kNumel};
    if (of == "size") {
      const bool is_next = Take(',');
      const char *first = text_.data() + pos_, *last = text_.data() + text_.size();
      const auto read = std::from_chars(first, last, size.dim);
      if (!is_next || read.ec != std::errc()) Fail("no dimension");
      pos_ += static_cast<size_t>(read.ptr - first);
    }
    ExpectClosed();
    Emit(Plan::Op::kSize, static_cast<int32_t>(plan_->sizes_.size()));
    plan_->sizes_.push_back(size);
  }

  void ExpectClosed() {
    if (!Take(')')) Fail(AtEnd() ? "the end of the text; ')' is missing" : "no ')'");
  }

  void ParseNumber() {
    const size_t begin = pos_;
    if (text_[pos_] == '-' || text_[pos_] == '+') ++pos_;
    while (!AtEnd() && (IsNamePart(text_[pos_]) || text_[pos_] == '.' ||
                        ((text_[pos_] == '-' || text_[pos_] == '+') &&
                         (text_[pos_ - 1] == 'e' || text_[pos_ - 1] == 'E')))) {
      ++pos_;
    }
    const std::string token(text_.substr(begin, pos_ - begin));
    const char* first = token.c_str() + (token[0] == '+');
    const char* last = token.c_str() + token.size();
    int64_t integer = 0;
    const auto whole = std::from_chars(first, last, integer);
    if (whole.ptr == last && whole.ec == std::errc()) return EmitConstant(ToAny(integer));
    double real = 0;
    const auto read = std::from_chars(first, last, real);  // in any locale, unlike strtod
    if (read.ptr != last || read.ec != std::errc() || whole.ec == std::errc::result_out_of_range) {
      pos_ = begin;
      Fail("'" + token + "', which is no 64-bit number");
    }
    EmitConstant(ToAny(real));
  }

  int HexDigits(int count) {
    int code = 0;
    for (int i = 0; i < count; ++i, ++pos_) {
      if (AtEnd() || !std::isxdigit(static_cast<unsigned char>(text_[pos_]))) {
        Fail("an incomplete \\u escape");
      }
      const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(text_[pos_])));
      code = code * 16 + (IsDigit(c) ? c - '0' : c - 'a' + 10);
    }
    return code;
  }

  static void AppendUtf8(uint32_t code, std::string* out) {
    if (code < 0x80) {
      out->push_back(static_cast<char>(code));
      return;
    }
    const int tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr int kLead[] = {0, 0xC0, 0xE0, 0xF0};
    out->push_back(static_cast<char>(kLead[tail] | (code >> (6 * tail))));
    for (int i = tail - 1; i >= 0; --i) {
      out->push_back(static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F)));
    }
  }

  /// The character whose first half is `high`.
  uint32_t TakeSurrogatePair(uint32_t high) {
    uint32_t low = 0;
    if (text_.substr(pos_, 2) == "\\u") {
      pos_ += 2;
      low = static_cast<uint32_t>(HexDigits(4));
    }
    if (high >= 0xDC00 || low < 0xDC00 || low >= 0xE000) Fail("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  void AppendEscape(std::string* out) {
    if (AtEnd()) Fail("the end of the text; '\"' is missing");
    const char c = text_[pos_++];
    static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t found = kFrom.find(c); found != std::string_view::npos) {
      out->push_back(kTo[found]);
      return;
    }
    if (c != 'u') Fail("an unknown escape '\\" + std::string(1, c) + "'");
    uint32_t code = static_cast<uint32_t>(HexDigits(4));
    if (code >= 0xD800 && code < 0xE000) code = TakeSurrogatePair(code);
    if (code == 0) Fail("a NUL in a string");  // constants are C strings
    AppendUtf8(code, out);
  }

  void ParseString() {
    ++pos_;
    std::string content;
    while (true) {
      if (AtEnd()) Fail("the end of the text; '\"' is missing");
      const char c = text_[pos_++];
      if (c == '"') break;
      if (c == '\0') Fail("a NUL in a string");
      if (c == '\\') {
        AppendEscape(&content);
      } else {
        content.push_back(c);
      }
    }
    plan_->strings_.push_back(std::make_shared<const std::string>(std::move(content)));
    EmitConstant(ToAny(plan_->strings_.back()->c_str()));
  }

  std::string_view text_;
  const Plan::Names& names_;
  std::string_view subject_;
  Plan* plan_;
  size_t pos_ = 0;
};

Plan Plan::Parse(std::string_view text, const Names& names, std::string_view subject) {
  Plan plan;
  PlanParser(text, names, subject, &plan).Run();
  plan.Finish();
  return plan;
}

Plan::Conversion Plan::ConversionOf(std::string_view name) {
  if (name == "bool") return Conversion::kBool;
  if (name == "dtype") return Conversion::kDType;
  return name == "device" ? Conversion::kDevice : Conversion::kNone;
}

bool Plan::is_strided(Op op, int32_t index) const {
  const Op all = op == Op::kInput ? Op::kAllInputs : Op::kAllOutputs;
  return std::none_of(items_.begin(), items_.end(), [&](const Item& item) {
    const bool is_slot = item.op == op && item.index == index;
    return item.op == all || (is_slot && item.conversion != Conversion::kStrided);
  });
}

void Plan::Finish() {
  const auto count = [this](auto&& matches) {
    return std::count_if(items_.begin(), items_.end(), matches);
  };
  const auto is_simple = [](const Item& item) {
    const bool is_value = item.op == Op::kAttribute && item.conversion == Conversion::kNone;
    return is_value || item.op == Op::kInput || item.op == Op::kOutput || item.op == Op::kConstant;
  };
  const auto all_inputs = count([](const Item& item) { return item.op == Op::kAllInputs; });
  const auto all_outputs = count([](const Item& item) { return item.op == Op::kAllOutputs; });
  is_flat_ = all_inputs <= 1 && all_outputs <= 1 &&
             count(is_simple) + all_inputs + all_outputs == static_cast<long>(items_.size());
  first_output_ = all_outputs != 0 ? 0 : INT32_MAX;
  for (const Item& item : items_) {
    if (item.op == Op::kOutput) first_output_ = std::min(first_output_, item.index);
  }
}

}  // namespace graphffi

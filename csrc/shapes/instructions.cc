// SPDX-License-Identifier: Apache-2.0
#include "shapes/instructions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "call/error.h"
#include "call/text_lines.h"

namespace graphffi {
namespace {

using Op = Instructions::Op;

// Besides those of arithmetic.
constexpr std::pair<std::string_view, Op> kOps[] = {
    {"const", Op::kConst}, {"size", Op::kSize},   {"stride", Op::kStride}, {"ndim", Op::kNDim},
    {"dtype", Op::kDType}, {"float", Op::kFloat}, {"floor", Op::kFloor},   {"ceil", Op::kCeil},
    {"trunc", Op::kTrunc}, {"div", Op::kDiv},     {"pow", Op::kPow},       {"and", Op::kAnd},
    {"or", Op::kOr},       {"xor", Op::kXor},     {"both", Op::kBoth},     {"either", Op::kEither},
    {"eq", Op::kEq},       {"ne", Op::kNe},       {"lt", Op::kLt},         {"le", Op::kLe},
    {"gt", Op::kGt},       {"ge", Op::kGe},
};

bool IsOf(Op op, Op first, Op last) { return op >= first && op <= last; }

int64_t ToBits(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// \throws Error(InternalError)
int64_t ReadConstant(ProgramText* text, bool* is_float) {
  const std::string_view word = text->Word();
  if (const auto integer = NumberIn<int64_t>(word)) return *integer;
  const auto real = NumberIn<double>(word);
  if (!real) text->Fail();
  *is_float = true;
  return ToBits(*real + 0.0);  // -0.0 has the bits of kFailed
}

/// As Python's. False at a division by zero.
bool Compute(Arithmetic operation, double a, double b, double* out) {
  switch (operation) {
    case Arithmetic::kAdd:
      *out = a + b;
      return true;
    case Arithmetic::kSub:
      *out = a - b;
      return true;
    case Arithmetic::kMul:
      *out = a * b;
      return true;
    case Arithmetic::kMin:
      *out = std::min(a, b);
      return true;
    case Arithmetic::kMax:
      *out = std::max(a, b);
      return true;
    default:
      break;
  }
  if (b == 0) return false;
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  *out = operation == Arithmetic::kMod ? remainder : std::round((a - remainder) / b);
  return true;
}

bool Power(int64_t base, int64_t exponent, int64_t* out) {
  if (exponent < 0) return false;
  *out = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(*out, base, out)) return false;
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return false;
  }
  return true;
}

template <typename Number>
bool Compare(Op op, Number a, Number b) {
  switch (op) {
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    case Op::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace

std::string_view ProgramText::Word() {
  while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\n')) ++pos_;
  const size_t begin = pos_;
  while (pos_ < text_.size() && text_[pos_] != ' ' && text_[pos_] != '\n') ++pos_;
  return text_.substr(begin, pos_ - begin);
}

std::string_view ProgramText::RestOfLine() {
  const size_t begin = std::min(pos_ + 1, text_.size());
  pos_ = std::min(text_.find('\n', pos_), text_.size());
  return text_.substr(std::min(begin, pos_), pos_ - std::min(begin, pos_));
}

int64_t ProgramText::Number() {
  const auto number = NumberIn<int64_t>(Word());
  if (!number) Fail();
  return *number;
}

int32_t ProgramText::Count() {
  const int64_t number = Number();
  if (number < 0 || number > INT32_MAX) Fail();
  return static_cast<int32_t>(number);
}

void ProgramText::Fail() const {
  throw Error("InternalError",
              "graphffi: a shape program does not parse at offset " + std::to_string(pos_));
}

std::string FillPlaces(std::string_view message,
                       const std::function<std::optional<std::string>(std::string_view)>& write) {
  std::string text;
  for (size_t begin = 0; begin < message.size();) {
    const size_t open = message.find('{', begin), close = message.find('}', open);
    text += message.substr(begin, open - begin);
    if (close == std::string_view::npos) {
      if (open != std::string_view::npos) text += message.substr(open);
      break;
    }
    const std::optional<std::string> written = write(message.substr(open + 1, close - open - 1));
    text += written.has_value() ? *written : "{";
    begin = written.has_value() ? close + 1 : open + 1;
  }
  return text;
}

std::optional<std::string> Instructions::Write(std::string_view place,
                                               const int64_t* values) const {
  const auto number = NumberIn<int32_t>(place);
  if (!number || *number < 0 || *number >= num_values()) return std::nullopt;
  return values[*number] > kMissing ? std::to_string(values[*number]) : "?";
}

double Instructions::ToFloat(int64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

int32_t Instructions::ReadValue(ProgramText* text) const {
  const int32_t index = text->Count();
  if (index >= num_values()) text->Fail();
  return index;
}

bool Instructions::Read(std::string_view name, ProgramText* text) {
  const auto* found = std::find_if(std::begin(kOps), std::end(kOps),
                                   [&](const auto& entry) { return entry.first == name; });
  const std::optional<Arithmetic> arithmetic = ArithmeticOf(name);
  if (found == std::end(kOps) && !arithmetic) return false;
  const Op op = arithmetic ? Op::kArithmetic : found->second;
  Instruction instruction{
      op, arithmetic.value_or(Arithmetic{}), op == Op::kFloat || op == Op::kDiv, 0, 0, 0};
  if (op == Op::kConst) {
    instruction.constant = ReadConstant(text, &instruction.has_floats);
  } else {
    ReadOperands(&instruction, text);
  }
  code_.push_back(instruction);
  const bool gives_int = IsOf(op, Op::kFloor, Op::kTrunc) || IsOf(op, Op::kEq, Op::kGe);
  are_floats_.push_back(instruction.has_floats && !gives_int);
  return true;
}

void Instructions::ReadOperands(Instruction* instruction, ProgramText* text) const {
  const Op op = instruction->op;
  const bool is_load = instruction->is_load();
  if (is_load && !may_load_) text->Fail();
  instruction->a = is_load ? text->Count() : ReadValue(text);
  instruction->b = instruction->a;
  if (!IsOf(op, Op::kNDim, Op::kTrunc)) {
    instruction->b = is_load ? text->Count() : ReadValue(text);
  }
  if (is_load) return;
  const bool are_ints = !is_float(instruction->a) && !is_float(instruction->b);
  if (!are_ints && IsOf(op, Op::kAnd, Op::kEither)) text->Fail();
  instruction->has_floats = instruction->has_floats || !are_ints;
}

bool Instructions::Evaluate(const Instruction& instruction, int64_t a, int64_t b,
                            int64_t* out) const {
  if (instruction.has_floats) return EvaluateFloats(instruction, a, b, out);
  switch (instruction.op) {
    case Op::kConst:
      *out = instruction.constant;
      return true;
    case Op::kArithmetic:
      return Compute(instruction.arithmetic, a, b, out);
    case Op::kPow:
      return Power(a, b, out);
    case Op::kAnd:
      *out = a & b;
      return true;
    case Op::kOr:
      *out = a | b;
      return true;
    case Op::kXor:
      *out = a ^ b;
      return true;
    case Op::kBoth:
      *out = a == 0 ? a : b;
      return true;
    case Op::kEither:
      *out = a == 0 ? b : a;
      return true;
    case Op::kFloor:
    case Op::kCeil:
    case Op::kTrunc:
      *out = a;
      return true;
    default:
      if (instruction.is_load()) return false;
      *out = Compare(instruction.op, a, b) ? 1 : 0;
      return true;
  }
}

bool Instructions::EvaluateFloats(const Instruction& instruction, int64_t a, int64_t b,
                                  int64_t* out) const {
  const auto real = [this](int32_t value, int64_t bits) {
    return is_float(value) ? ToFloat(bits) : static_cast<double>(bits);
  };
  const Op op = instruction.op;
  if (op == Op::kConst) {
    *out = instruction.constant;
    return true;
  }
  const double x = real(instruction.a, a), y = real(instruction.b, b);
  if (IsOf(op, Op::kEq, Op::kGe)) {
    *out = Compare(op, x, y) ? 1 : 0;
    return true;
  }
  double found = x;  // of `float`
  if (op == Op::kArithmetic && !Compute(instruction.arithmetic, x, y, &found)) return false;
  if (op == Op::kDiv) found = x / y;  // not finite for y == 0
  if (op == Op::kPow) found = std::pow(x, y);
  if (op == Op::kFloor) found = std::floor(x);
  if (op == Op::kCeil) found = std::ceil(x);
  if (op == Op::kTrunc) found = std::trunc(x);
  if (!std::isfinite(found)) return false;
  if (IsOf(op, Op::kFloor, Op::kTrunc)) {
    constexpr double kLimit = 9223372036854775808.0;
    if (found < -kLimit || found >= kLimit) return false;
    *out = static_cast<int64_t>(found);
    return true;
  }
  *out = ToBits(found + 0.0);
  return true;
}

bool Instructions::Run(int64_t* values) const {
  int64_t* out = values + num_values() - static_cast<int32_t>(code_.size());
  for (const Instruction& instruction : code_) {
    const bool is_const = instruction.op == Op::kConst;
    const int64_t a = is_const ? 0 : values[instruction.a],
                  b = is_const ? 0 : values[instruction.b];
    if (!Evaluate(instruction, a, b, out++)) return false;
  }
  return true;
}

int64_t Instructions::Settle(const Instruction& instruction, const int64_t* values) const {
  if (instruction.op == Op::kConst) return instruction.constant;
  const int64_t a = values[instruction.a], b = values[instruction.b];
  const auto is_value = [](int64_t value) { return value != kFailed && value != kMissing; };
  if (!is_value(a)) return a;
  const bool is_logical = instruction.op == Op::kBoth || instruction.op == Op::kEither;
  if (!is_value(b) && !is_logical) return b;
  int64_t found = 0;
  const bool is_known = Evaluate(instruction, a, b, &found);
  return is_known && (is_logical || is_value(found)) ? found : kFailed;
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// The arithmetic of shape programs and conditions: instructions that compute values of others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "call/arithmetic.h"

namespace graphffi {

/// Reads a program's text, word by word.
class ProgramText {
 public:
  explicit ProgramText(std::string_view text) : text_(text) {}

  /// Empty at the end.
  std::string_view Word();
  /// What follows the last word in its line, without the space between them.
  std::string_view RestOfLine();
  /// \throws Error(InternalError) as Fail does
  int64_t Number();
  /// A number of 0 or more. \throws Error(InternalError)
  int32_t Count();
  /// \throws Error(InternalError) for text that nothing of graphffi's writes
  [[noreturn]] void Fail() const;

 private:
  std::string_view text_;
  size_t pos_ = 0;
};

/// A message with what `write` gives of each place, `{3}` or `{t1}`, in its stead. Braces around
/// what it does not know stay.
std::string FillPlaces(std::string_view message,
                       const std::function<std::optional<std::string>(std::string_view)>& write);

/// Instructions that each give one value, an int of 64 bits or a float. Text, one a line; numbers
/// name values, first those that are given, then those that the instructions give, in order:
///
///     const 128            a value; with a point or an exponent, a float
///     add 0 3              also sub, mul, floordiv, mod, pow, min, max; eq, ne, lt, le, gt, ge
///                          (0 or 1); as in Python, a float if one of the two is one
///     and 0 3              also or, xor: bits of ints
///     both 0 3             Python's `and` of ints; either: `or`
///     div 0 3              a float, as `/` of Python
///     float 0              a float; floor, ceil, trunc: an int
///     size 0 1             the first tensor's second size; stride. Of conditions alone
///     ndim 0               the number of its dimensions
///     dtype 0              2^24 times its data type's code, and 2^16 times its bits, and its
///                          lanes; of None, -1
///
/// An instruction fails at a division by zero, or if 64 bits do not hold its value.
class Instructions {
 public:
  /// They load what tensors have.
  Instructions() = default;
  /// They begin with that many ints, which are given, and load nothing.
  explicit Instructions(int32_t num_given)
      : may_load_(false), are_floats_(static_cast<size_t>(num_given)) {}

  /// Adds an instruction of this name, whose operands it reads; false if there is none.
  /// \throws Error(InternalError)
  bool Read(std::string_view name, ProgramText* text);
  /// The number of a value that is known by now. \throws Error(InternalError)
  int32_t ReadValue(ProgramText* text) const;

  /// Memory for the values of one run: on the stack, unless there are many.
  class Room {
   public:
    explicit Room(const Instructions& instructions) {
      const auto num_values = static_cast<size_t>(instructions.num_values());
      if (num_values <= kInline) return;
      more_.resize(num_values);
      values_ = more_.data();
    }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    int64_t* values() { return values_; }

   private:
    static constexpr size_t kInline = 128;
    int64_t inline_[kInline];
    std::vector<int64_t> more_;
    int64_t* values_ = inline_;
  };

  int32_t num_values() const { return static_cast<int32_t>(are_floats_.size()); }
  /// Values that are given.
  int32_t num_given() const { return num_values() - static_cast<int32_t>(code_.size()); }
  bool is_float(int32_t value) const { return are_floats_[static_cast<size_t>(value)]; }
  static double ToFloat(int64_t bits);

  /// Computes all values behind those that are given; false at the first that fails.
  bool Run(int64_t* values) const;

  /// In the place of values of RunAll that failed, and of loads of what a tensor does not have.
  static constexpr int64_t kFailed = INT64_MIN, kMissing = INT64_MIN + 1;
  /// Computes all values. What cannot be computed, `both` and `either` only miss where Python would
  /// evaluate it; the other instructions give the first of it again. `load(instruction)` gives what
  /// an instruction about a tensor does.
  template <typename Load>
  void RunAll(int64_t* values, Load&& load) const {
    int64_t* out = values + num_values() - static_cast<int32_t>(code_.size());
    for (const Instruction& instruction : code_) {
      *out = instruction.is_load() ? load(instruction) : Settle(instruction, values);
      ++out;
    }
  }

  enum class Op : uint8_t {
    kConst,
    kSize,
    kStride,
    kNDim,
    kDType,
    kFloat,
    kFloor,
    kCeil,
    kTrunc,
    kDiv,
    kPow,
    kArithmetic,
    kAnd,
    kOr,
    kXor,
    kBoth,
    kEither,
    kEq,
    kNe,
    kLt,
    kLe,
    kGt,
    kGe,
  };
  struct Instruction {
    Op op;
    Arithmetic arithmetic;  // of kArithmetic
    bool has_floats;        // computes with floats
    int32_t a, b;           // values; of loads, a tensor and a dimension
    int64_t constant;       // or the bits of a float
    bool is_load() const { return op >= Op::kSize && op <= Op::kDType; }
  };
  /// The text of a value of RunAll that a place of a message names.
  std::optional<std::string> Write(std::string_view place, const int64_t* values) const;
  /// What gives a value, if none is given.
  const Instruction& operator[](int32_t value) const { return code_[static_cast<size_t>(value)]; }

 private:
  void ReadOperands(Instruction* instruction, ProgramText* text) const;
  bool Evaluate(const Instruction& instruction, int64_t a, int64_t b, int64_t* out) const;
  bool EvaluateFloats(const Instruction& instruction, int64_t a, int64_t b, int64_t* out) const;
  int64_t Settle(const Instruction& instruction, const int64_t* values) const;

  bool may_load_ = true;
  std::vector<Instruction> code_;
  std::vector<bool> are_floats_;  // of all values
};

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Shape programs: what a shape rule says, traced once, run for each call without Python.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "call/plan.h"
#include "shapes/instructions.h"

namespace graphffi {

/// Results to allocate, as row-major DLTensors without data. Lives on the stack of one call; a few
/// small results cost no allocation.
class ResultShapes {
 public:
  ResultShapes() = default;
  ResultShapes(const ResultShapes&) = delete;
  ResultShapes& operator=(const ResultShapes&) = delete;

  int32_t size() const { return size_; }
  /// Borrowed until the next Reset.
  const DLTensor& operator[](int32_t i) const { return results_[i]; }

  /// Makes room for that many results, whose sizes are `num_dims` numbers in all.
  void Reset(int32_t num_results, int32_t num_dims);
  DLTensor* results() { return results_; }
  int64_t* dims() { return dims_; }

  /// Scratch memory that the kernel gets besides; -1: none, or not of the rule's size.
  int64_t workspace_bytes = -1;
  /// The number of the kernel, of those that the op has, that the call runs.
  int32_t kernel = 0;

 private:
  static constexpr int32_t kInlineResults = 4, kInlineDims = 16;
  int32_t size_ = 0;
  DLTensor* results_ = inline_results_;
  int64_t* dims_ = inline_dims_;
  DLTensor inline_results_[kInlineResults];
  int64_t inline_dims_[kInlineDims];
  std::vector<DLTensor> more_results_;
  std::vector<int64_t> more_dims_;
};

/// A shape rule for calls of one structure (ranks, data types, devices, lengths of lists), as
/// integer arithmetic on the operands' sizes and the integer attributes. Immutable.
///
/// Text: one instruction a line. Numbers name values: first the sizes of the input tensors, then
/// those of the updated ones, then the integer attributes (no bools), then what the value
/// instructions give, in order.
///
///     add 0 3              a value; instructions.h has all such instructions
///     true 5               the program is for calls in which value 5 is not 0; false: in which it
///                          is
///     error ValueError x: expected {3}
///                          of calls for which the condition before does not hold: kind and text,
///                          in which `{3}` stands for value 3. Of calls in models; others ask the
///                          rule
///     same 2               … in which the attribute bank's value 2 is that of the traced call
///     result 2 32 1 1 0 2 0 5
///                          dtype code, bits, lanes; device type, index; rank; a value per size
///     workspace 5          bytes, after the results
///     kernel 1             the number of the kernel that such calls run; without it, the first
class ShapeProgram {
 public:
  /// `traced` is the call by which the rule was traced: its structure is the program's.
  /// \throws Error(InternalError) for text that no tracer writes.
  static ShapeProgram Parse(std::string_view text, const CallValues& traced);

  /// The results of a call; false if the program is not for such calls, or if its arithmetic fails
  /// (division by zero, overflow, a negative size): then the rule must be asked. The outputs' bank
  /// begins with one value per result, which is not looked at.
  bool Run(const CallValues& values, ResultShapes* results) const;

  int32_t num_results() const { return static_cast<int32_t>(results_.size()); }
  DLDataType ResultType(int32_t i) const { return results_[static_cast<size_t>(i)].dtype; }
  /// The values that are a result's sizes.
  const std::vector<int32_t>& ResultDims(int32_t i) const {
    return results_[static_cast<size_t>(i)].dims;
  }
  int32_t num_dims() const { return num_dims_; }  ///< of all results
  /// Results have `workspace_bytes`.
  bool gives_workspace() const { return workspace_ >= 0; }

  /// All values of a call, those that it gives first; Instructions::kMissing or kFailed for what is
  /// not known. No condition is looked at. \throws Error(InternalError) for other numbers of values
  std::vector<int64_t> Infer(std::vector<int64_t> given) const;

  /// The error of the first condition that does not hold, of a call with the program's structure.
  /// Nothing where none says an error.
  struct Broken {
    std::string kind, message;
  };
  std::optional<Broken> FindBroken(const CallValues& values) const;

 private:
  struct Guard {
    int32_t value;
    bool expected;
    std::string kind, message;
  };
  struct Operand {
    int32_t ndim;  // -1: None
    DLDataType dtype;
    DLDevice device;
  };
  struct Attribute {
    int32_t type_index;
    bool is_fixed;  // to `payload` or, for a string, to `text`
    int64_t payload;
    std::string text;
  };
  struct Result {
    DLDataType dtype;
    DLDevice device;
    std::vector<int32_t> dims;
  };
  /// Those of a bank's slots.
  struct Lengths {
    Lengths() = default;
    explicit Lengths(const Bank& bank);
    bool Fit(const Bank& bank) const;

    std::vector<int32_t> counts;
    bool has_lists = false;
  };

  bool HasStructure(const CallValues& call) const;
  void NoteStructure(const CallValues& traced);
  bool LoadTensors(const Bank& bank, int32_t first, size_t* operand, int64_t** next) const;
  bool LoadAttributes(const Bank& bank, int64_t** next) const;
  bool Load(const CallValues& call, int64_t* values) const;
  bool Compute(int64_t* values) const;
  bool Fill(const int64_t* values, ResultShapes* results) const;

  friend class ShapeProgramParser;
  Lengths inputs_, outputs_, attribute_slots_;
  std::vector<Operand> operands_;
  std::vector<Attribute> attributes_;
  Instructions instructions_;  // behind the values of the call
  std::vector<Guard> guards_;
  std::vector<Result> results_;
  int32_t num_dims_ = 0;    // of all results
  int32_t workspace_ = -1;  // a value; -1: none
  int32_t kernel_ = 0;
};

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// An op's shape rule: shape programs where there are any for the call, else the rule itself.
#pragma once

#include <tvm/ffi/c_api.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "call/plan.h"
#include "shapes/shape_program.h"

namespace graphffi {

/// Thread-safe. Asks whoever has the rule, and keeps the programs that come with the answers: one
/// for each structure of calls, and for each way that the rule took through its branches.
class ShapeRule {
 public:
  ShapeRule() = default;
  virtual ~ShapeRule();
  ShapeRule(const ShapeRule&) = delete;
  ShapeRule& operator=(const ShapeRule&) = delete;

  /// The results of a call. `values` holds tensors with metadata, the outputs' bank first one value
  /// per result, which is not looked at. \throws what the rule raises
  void Infer(const CallValues& values, ResultShapes* results);

  /// A kernel that a factory of the op made. `number` is one that programs gave, of no kernel of
  /// the definition itself.
  struct MadeKernel {
    int32_t factory;  ///< its number among the definition's kernels, whose plan it has
    std::string reference;
  };
  virtual MadeKernel Made(int32_t number) = 0;

 protected:
  /// Asks the rule: the call's results as a program of constants, then, where it could be traced, a
  /// line `program` and the text of the program of calls like it. With `trace` false that is not
  /// wanted.
  virtual std::string Ask(const CallValues& values, bool trace) = 0;

 private:
  /// Rules that branch on sizes in ever new ways are asked each time, once there are so many.
  static constexpr int kMaxPrograms = 64;
  struct Node {
    ShapeProgram program;
    std::atomic<Node*> next;
  };

  void Keep(ShapeProgram program);

  std::atomic<Node*> first_{nullptr};
  std::mutex mutex_;  // of those who add
  std::atomic<int> num_programs_{0};
};

}  // namespace graphffi

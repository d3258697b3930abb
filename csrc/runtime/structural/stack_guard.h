// SPDX-License-Identifier: Apache-2.0
// How deep a recursion over values may go: as far as the thread's stack.
#pragma once

#include <tvm/ffi/error.h>

namespace graphffi::runtime {

/// Whether little of the thread's stack is left, or it is not known how much, as on the stacks of
/// coroutines.
bool IsStackLow();

/// Counts how deep a recursion is. \throws Error(ValueError) before the stack overflows
class StackGuard {
 public:
  explicit StackGuard(int* depth) : depth_(depth) {
    constexpr int kDepthWithoutCheck = 500;
    if (++*depth_ <= kDepthWithoutCheck || !IsStackLow()) return;
    --*depth_;
    Refuse();
  }
  ~StackGuard() { --*depth_; }
  StackGuard(const StackGuard&) = delete;
  StackGuard& operator=(const StackGuard&) = delete;

  [[noreturn]] static void Refuse() {
    TVM_FFI_THROW(ValueError) << "the structure is nested too deeply or has a cycle";
    TVM_FFI_UNREACHABLE();
  }

 private:
  int* depth_;
};

}  // namespace graphffi::runtime

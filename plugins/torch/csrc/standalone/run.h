// SPDX-License-Identifier: Apache-2.0
// One run of a graph on a thread: what its code asks for, and what it failed with.
#pragma once

#include <cstdint>

#include "bounded_list.h"
#include "call/error.h"
#include "graph.h"
#include "shim_tensor.h"
#include "tensor.h"

namespace graphffi_standalone {

/// Gives memory to results as a run makes them.
class ResultMemory {
 public:
  /// *New reference* to a tensor like `prototype` in the place of result `i`; NULL if that does not
  /// take it. \throws Error of an allocator
  virtual Tensor* OptTake(int32_t i, const DLTensor& prototype) = 0;

 protected:
  ~ResultMemory() = default;
};

/// Which of a run's allocations become results. Lives on the stack of the run's thread; runs of
/// graphs that kernels call are nested.
class Run {
 public:
  /// Borrows `memory`.
  Run(const Method& method, ResultMemory* memory);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// *New reference* to a tensor like `prototype` for the run of this thread: in the memory of the
  /// result that it became last time. \throws Error(MemoryError), or of an allocator
  static Tensor* Allocate(const DLTensor& prototype);

  /// Keeps an error until the run ends: generated code carries none. Returns 1, as its calls do.
  static int32_t Fail(graphffi::Error error);
  /// The error of the run that just failed with an exception; `what` is its text.
  static graphffi::Error TakeError(const char* what);
  static bool has_error() { return error_ != nullptr; }
  /// The text of the kept error.
  static const char* ErrorText();

 private:
  static thread_local Run* current_;
  static thread_local graphffi::Error* error_;  // leaked where a thread ends with one

  ResultMemory* const memory_;
  BoundedList<int32_t> ordinals_;  // as they were when the run began: other threads learn, too
  int32_t num_allocated_ = 0;
  Run* const opt_outer_;
  graphffi::Error* const opt_outer_error_;
};

}  // namespace graphffi_standalone

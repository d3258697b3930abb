// SPDX-License-Identifier: Apache-2.0
// One run of a graph on a thread: what its code asks for, and what it failed with.
#pragma once

#include <cstdint>

#include "callframe/error.h"
#include "shim_tensor.h"
#include "tensor.h"

namespace graphffi_standalone {

/// Where the caller wants results, and which of a run's allocations become them. Lives on the
/// stack of the run's thread; runs of graphs that kernels call are nested.
class Run {
 public:
  /// `ordinals` says for each destination which allocation became it last time; -1: none did.
  Run(const DLTensor* const* destinations, const int32_t* ordinals, int32_t count)
      : destinations_(destinations), ordinals_(ordinals), count_(count), opt_outer_(current_) {
    current_ = this;
  }
  ~Run() { current_ = opt_outer_; }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// *New reference* to a tensor for the run of this thread: in a destination if it became that
  /// last time and fits. \throws Error(MemoryError)
  static Tensor* Allocate(const Layout& layout);

  /// Keeps an error until the run ends: generated code carries none. Returns 1, as its calls do.
  static int32_t Fail(graphffi::Error error);
  /// The error of the run that just failed with an exception; `what` is its text.
  static graphffi::Error TakeError(const char* what);
  /// The text of the kept error.
  static const char* ErrorText();

 private:
  static thread_local Run* current_;
  static thread_local graphffi::Error* error_;  // leaked where a thread ends with one

  const DLTensor* const* destinations_;
  const int32_t* ordinals_;
  int32_t count_;
  int32_t num_allocated_ = 0;
  Run* opt_outer_;
};

}  // namespace graphffi_standalone

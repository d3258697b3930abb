// SPDX-License-Identifier: Apache-2.0
// Giving up Python's global interpreter lock while a kernel runs.
#pragma once

#include <Python.h>

namespace graphffi_torch {

/// Gives the lock up for a scope, if asked to.
class GilRelease {
 public:
  explicit GilRelease(bool release) : opt_state_(release ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (opt_state_ != nullptr) PyEval_RestoreThread(opt_state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* opt_state_;
};

}  // namespace graphffi_torch

// SPDX-License-Identifier: Apache-2.0
// Taking and giving up Python's global interpreter lock.
#pragma once

#include <Python.h>

namespace graphffi::bindings {

/// Takes the GIL on any thread. Near the interpreter's end, when it can't be had, ok() is false and
/// no Python object may be touched: leak instead.
class GilHold {
 public:
  GilHold();
  ~GilHold() {
    if (ok_) PyGILState_Release(state_);
  }
  GilHold(const GilHold&) = delete;
  GilHold& operator=(const GilHold&) = delete;

  bool ok() const { return ok_; }

 private:
  bool ok_;
  PyGILState_STATE state_{};
};

/// Gives the GIL up for a scope, if asked to.
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

}  // namespace graphffi::bindings

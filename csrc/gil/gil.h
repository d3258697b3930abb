// SPDX-License-Identifier: Apache-2.0
// Taking and releasing the GIL.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include "call/error.h"

namespace graphffi {

/// Calls `run`, which may run Python code, and returns its result. A thread other than the main one
/// that takes the GIL while Python shuts down is ended there; before 3.14 by unwinding its stack,
/// which aborts in noexcept functions and runs destructors that need the GIL. It is parked here
/// instead, as in 3.14.
template <typename Run>
auto UntilShutdown(const Run& run) -> decltype(run()) {
  try {
    return run();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

/// Takes the GIL on any thread. Near the interpreter's end, when it can't be had, ok() is false and
/// no Python object may be touched: leak instead.
class GilHold {
 public:
  static constexpr char kShutDown[] =
      "graphffi: a Python function was called while Python shuts down";

  GilHold() : ok_(Py_IsInitialized() != 0) {
    // A finalizing interpreter ends every other thread that asks for the GIL.
    if (ok_ && IsFinalizing()) ok_ = PyGILState_Check() != 0;
    if (ok_) state_ = UntilShutdown([] { return PyGILState_Ensure(); });
  }
  ~GilHold() {
    if (ok_) PyGILState_Release(state_);
  }
  GilHold(const GilHold&) = delete;
  GilHold& operator=(const GilHold&) = delete;

  bool ok() const { return ok_; }
  /// \throws Error(RuntimeError) unless ok().
  void Check() const {
    if (!ok_) throw Error("RuntimeError", kShutDown);
  }

 private:
  static bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

  bool ok_;
  PyGILState_STATE state_{};
};

/// Releases the GIL for a scope, if asked to.
class GilRelease {
 public:
  explicit GilRelease(bool release) : opt_state_(release ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (opt_state_ != nullptr) UntilShutdown([this] { PyEval_RestoreThread(opt_state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* opt_state_;
};

/// Drops a reference to an object whose deallocation may run Python code.
inline void DropUntilShutdown(PyObject* object) {
  UntilShutdown([object] { Py_DECREF(object); });
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Taking and giving up Python's global interpreter lock.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <exception>

#include "callframe/error.h"
#include "callframe/lock_keeper.h"

namespace graphffi {

/// The GIL's keeper.
struct GilKeeper {
  LockKeeper keeper;
  uintptr_t* current_state;  // GraphffiFindCurrentState

  /// What PyThreadState_Swap does, whose two jumps count here.
  PyThreadState* SwapState(PyThreadState* opt_state) const {
    const uintptr_t before = __atomic_load_n(current_state, __ATOMIC_RELAXED);
    __atomic_store_n(current_state, reinterpret_cast<uintptr_t>(opt_state), __ATOMIC_RELAXED);
    return reinterpret_cast<PyThreadState*>(before);
  }
};

/// The process's, which graphffi._core makes: each module has its own variable. NULL where calls
/// give the GIL up themselves.
inline GilKeeper* opt_gil_keeper = nullptr;
constexpr char kGilKeeperCapsule[] = "graphffi._core.gil_keeper";

/// For other modules, once.
inline void ImportGilKeeper() {
  opt_gil_keeper = static_cast<GilKeeper*>(PyCapsule_Import(kGilKeeperCapsule, 0));
  if (opt_gil_keeper == nullptr) PyErr_Clear();  // this Python has none
}

/// What `run` gives, which calls Python. Python that shuts down ends other threads wherever they
/// take the GIL, before 3.14 by unwinding their stacks. C++ code can't take that, nor does it hold
/// the GIL then: the thread stays here, as in 3.14.
template <typename Run>
auto UntilShutdown(const Run& run) -> decltype(run()) {
  struct Stay {
    bool is_over = false;
    ~Stay() {
      while (!is_over && std::uncaught_exceptions() == 0) pause();
    }
  } stay;
  const auto result = run();
  stay.is_over = true;
  return result;
}

/// PyGILState_Ensure for threads whose call may have parked the GIL: without delay.
inline PyGILState_STATE EnsureGil() {
  if (opt_gil_keeper != nullptr) opt_gil_keeper->keeper.GiveUpMine();
  return UntilShutdown([] { return PyGILState_Ensure(); });
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
    if (ok_) state_ = EnsureGil();
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

/// Gives the GIL up for a scope, if asked to.
class GilRelease {
 public:
  explicit GilRelease(bool release) : opt_state_(release ? PyEval_SaveThread() : nullptr) {}

  /// For a call of a callable whose calls may be short, with its place: parks the GIL there if it
  /// can.
  GilRelease(bool release, LockKeeper::Place** opt_place) {
    if (!release) return;
    LockKeeper::Place* place = *opt_place;
    if (__builtin_expect(place != nullptr && place->is_free(), 1)) {
      if (Park(place)) return;
    } else {
      CountCall(opt_place);
    }
    opt_state_ = PyEval_SaveThread();
  }

  ~GilRelease() {
    if (opt_place_ != nullptr) {
      Resume();
    } else if (opt_state_ != nullptr) {
      Restore();
    }
  }

  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  bool Park(LockKeeper::Place* place) {
    opt_state_ = opt_gil_keeper->SwapState(nullptr);
    if (opt_gil_keeper->keeper.Park(place, opt_state_)) {
      opt_place_ = place;
      return true;
    }
    opt_gil_keeper->SwapState(opt_state_);
    opt_gil_keeper->keeper.CountRefused();
    return false;
  }

  void Resume() {
    if (__builtin_expect(opt_gil_keeper->keeper.Resume(opt_place_), 1)) {
      opt_gil_keeper->SwapState(opt_state_);
    } else {
      Restore();
      opt_gil_keeper->keeper.CountLongCall(opt_place_);
    }
  }

  __attribute__((noinline)) void Restore() {
    UntilShutdown([this] {
      PyEval_RestoreThread(opt_state_);
      return true;
    });
  }

  /// One that gives the GIL up at once.
  __attribute__((noinline)) static void CountCall(LockKeeper::Place** opt_place) {
    if (*opt_place == nullptr) {
      if (opt_gil_keeper != nullptr) *opt_place = opt_gil_keeper->keeper.NewPlace();
    } else if ((*opt_place)->num_to_give_up != 0) {
      --(*opt_place)->num_to_give_up;
    }
  }

  PyThreadState* opt_state_ = nullptr;
  LockKeeper::Place* opt_place_ = nullptr;
};

/// Drops a reference whose object may be Python's code to the end.
inline void DropUntilShutdown(PyObject* object) {
  UntilShutdown([object] {
    Py_DECREF(object);
    return true;
  });
}

/// When a callable goes.
inline void FreePlace(LockKeeper::Place* opt_place) {
  if (opt_place != nullptr) opt_gil_keeper->keeper.FreePlace(opt_place);
}

}  // namespace graphffi

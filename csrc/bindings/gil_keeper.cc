// SPDX-License-Identifier: Apache-2.0
#include "bindings/gil_keeper.h"

#include "gil/current_state.h"
#include "gil/gil.h"

namespace py = pybind11;

namespace graphffi::bindings {

namespace {

/// A state that the keeper's thread has for good: with it, it adopts the GIL of a call in order to
/// free it. NULL on a thread that has none of Python's own making, which would take it for that.
void* MakeState() {
  if (PyGILState_GetThisThreadState() == nullptr) return nullptr;
  PyThreadState* state = PyThreadState_New(PyInterpreterState_Main());
  if (state != nullptr) state->thread_id = 0;  // it was this thread's
  return state;
}

void GiveUp(void* state) {
  PyThreadState_Swap(static_cast<PyThreadState*>(state));
  PyEval_SaveThread();
}

void MakeKeeper(py::module_& module, uintptr_t* current_state) {
  auto* made = new GilKeeper{LockKeeper({&MakeState, &GiveUp}), current_state};
  module.attr("gil_keeper") = py::capsule(made, kGilKeeperCapsule);
  // Afterwards, Python frees the state of the keeper's thread.
  const py::cpp_function close([made] { made->keeper.Close(); });
  py::module_::import("atexit").attr("register")(close);
  opt_gil_keeper = made;
}

}  // namespace

void DefineGilKeeper(py::module_& module) {
  uintptr_t* current_state = GraphffiFindCurrentState();
  if (current_state != nullptr && LockKeeper::IsPossible()) MakeKeeper(module, current_state);
  module.def(
      "parked_calls",
      [] {
        uint64_t num_parked = 0, num_given_up = 0;
        if (opt_gil_keeper != nullptr) {
          num_parked = opt_gil_keeper->keeper.num_parked();
          num_given_up = opt_gil_keeper->keeper.num_given_up();
        }
        return py::make_tuple(num_parked, num_given_up);
      },
      "Return how many calls have parked Python's lock, and for how many it was given up then.");
}

}  // namespace graphffi::bindings

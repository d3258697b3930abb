// SPDX-License-Identifier: Apache-2.0
// Pending signals of the host language (Python's Ctrl-C), through functions that it registers.
#include <tvm/ffi/extra/c_env_api.h>

#include <atomic>
#include <cstring>

#include "error.h"

namespace graphffi::runtime {
namespace {

using CheckSignals = int (*)();
using EnsureGil = int (*)();
using ReleaseGil = void (*)(int state);

std::atomic<void*> check_signals{nullptr};
std::atomic<void*> ensure_gil{nullptr};
std::atomic<void*> release_gil{nullptr};

/// Holds the GIL, if Python has told how.
class GilScope {
 public:
  GilScope() {
    if (auto ensure = reinterpret_cast<EnsureGil>(ensure_gil.load())) state_ = ensure();
  }
  ~GilScope() {
    if (auto release = reinterpret_cast<ReleaseGil>(release_gil.load())) release(state_);
  }
  GilScope(const GilScope&) = delete;
  GilScope& operator=(const GilScope&) = delete;

 private:
  int state_ = 0;
};

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIEnvCheckSignals() {
  auto check = reinterpret_cast<CheckSignals>(check_signals.load(std::memory_order_acquire));
  if (check == nullptr) return 0;
  GilScope gil;
  // An exception stays pending in the host language, not in the slot.
  return check() == 0 ? 0 : -1;
}

int TVMFFIEnvRegisterCAPI(const char* name, void* symbol) {
  return Guard([&] {
    if (std::strcmp(name, "PyErr_CheckSignals") == 0) {
      check_signals.store(symbol);
    } else if (std::strcmp(name, "PyGILState_Ensure") == 0) {
      ensure_gil.store(symbol);
    } else if (std::strcmp(name, "PyGILState_Release") == 0) {
      release_gil.store(symbol);
    } else {
      Throw("ValueError",
            "graphffi: environment function: expected PyErr_CheckSignals, "
            "PyGILState_Ensure or PyGILState_Release, got '",
            name, "'");
    }
  });
}

// SPDX-License-Identifier: Apache-2.0
// Handles that are made once for all threads. The initializer runs without a lock: other threads
// that ask for the same handle wait for it, those that ask for another one do not.
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "error.h"
#include "fork.h"

namespace graphffi::runtime {
namespace {

struct PendingHandles {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<void**, std::thread::id> owners;
};

PendingHandles& pending = []() -> PendingHandles& {
  PendingHandles& made = TheTable<PendingHandles>();
  // A child of fork lacks the threads that make handles: it makes these itself.
  pthread_atfork(nullptr, nullptr, [] {
    new (&pending.changed) std::condition_variable();
    pending.owners.clear();
  });
  return made;
}();

void* Load(void** handle) { return __atomic_load_n(handle, __ATOMIC_ACQUIRE); }

/// The right to make one handle, until the end of the scope.
class PendingHandle {
 public:
  /// Waits until no other thread makes the handle.
  explicit PendingHandle(void** handle) : handle_(handle) {
    std::unique_lock lock(pending.mutex);
    for (auto it = pending.owners.find(handle); it != pending.owners.end();
         it = pending.owners.find(handle)) {
      if (it->second == std::this_thread::get_id()) {
        Throw("RuntimeError", "graphffi: init once: the initializer asks for its own handle");
      }
      pending.changed.wait(lock);
    }
    pending.owners.emplace(handle, std::this_thread::get_id());
  }
  ~PendingHandle() {
    {
      std::lock_guard lock(pending.mutex);
      pending.owners.erase(handle_);
    }
    pending.changed.notify_all();
  }
  PendingHandle(const PendingHandle&) = delete;
  PendingHandle& operator=(const PendingHandle&) = delete;

 private:
  void** handle_;
};

void InitOnce(void** handle, int (*init)(void** result)) {
  PendingHandle pending(handle);
  if (Load(handle) != nullptr) return;
  void* made = nullptr;
  CheckForeign(init(&made));
  if (made == nullptr) {
    Throw("RuntimeError", "graphffi: init once: expected a handle, got NULL");
  }
  __atomic_store_n(handle, made, __ATOMIC_RELEASE);
}

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIHandleInitOnce(void** handle_addr, int (*init_func)(void** result)) {
  if (Load(handle_addr) != nullptr) return 0;
  return Guard([&] { InitOnce(handle_addr, init_func); });
}

int TVMFFIHandleDeinitOnce(void** handle_addr, int (*deinit_func)(void* handle)) {
  void* handle = __atomic_exchange_n(handle_addr, nullptr, __ATOMIC_ACQ_REL);
  if (handle == nullptr) return 0;
  return Guard([&] { CheckForeign(deinit_func(handle)); });
}

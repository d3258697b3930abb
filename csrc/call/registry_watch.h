// SPDX-License-Identifier: Apache-2.0
// The process's registry of global functions, as graphffi's libraries see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace graphffi {

/// Has a fixed layout: each library that links this code reads it.
struct RegistryWatch {
  using Body = void (*)(void* context);

  /// Advanced after a function was replaced or removed: by the runtime, if it is graphffi's own,
  /// and otherwise by SetGlobal and RemoveGlobal, so that changes which others make are not seen.
  std::atomic<uint64_t>* epoch;
  /// Where the registry has no lock: runs `body` while it holds what those who change the registry
  /// hold, the GIL. NULL where the registry locks itself, and in processes without Python.
  std::atomic<void (*)(Body body, void* context)> opt_lock{nullptr};
  /// For other runtimes.
  std::atomic<uint64_t> own_epoch{0};

  /// The runtime is graphffi's: its registry counts changes and has a lock.
  bool is_own_runtime() const { return epoch != &own_epoch; }

  /// The one of the process, which is made now if need be. Lives as long as that. \throws Error
  static RegistryWatch& Get();
};

/// Calls `run`, which throws nothing, with the registry locked; without, where the runtime has no
/// lock for it.
template <typename Run>
void WithRegistryLocked(Run&& run) {
  const auto lock = RegistryWatch::Get().opt_lock.load(std::memory_order_acquire);
  if (lock == nullptr) return run();
  lock([](void* context) { (*static_cast<std::remove_reference_t<Run>*>(context))(); }, &run);
}

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
#include "call/registry_watch.h"

#include <memory>
#include <string_view>

#include "call/global_function.h"

namespace graphffi {
namespace {

/// Gives the process's to all libraries, which have each a copy of this code.
constexpr std::string_view kWatchName = "graphffi.registry_watch_1";
/// A function of graphffi's own runtime.
constexpr std::string_view kEpochName = "graphffi.registry_epoch";

RegistryWatch* MakeWatch() {
  auto made = std::make_unique<RegistryWatch>();
  void* const counted = FindShared(kEpochName);
  made->epoch =
      counted == nullptr ? &made->own_epoch : static_cast<std::atomic<uint64_t>*>(counted);
  void* const shared = Share(kWatchName, made.get());
  if (shared == made.get()) return made.release();
  return static_cast<RegistryWatch*>(shared);
}

}  // namespace

RegistryWatch& RegistryWatch::Get() {
  // No static variable with a guard, under which a thread could wait for another's GIL.
  static std::atomic<RegistryWatch*> opt_known{nullptr};
  RegistryWatch* watch = opt_known.load(std::memory_order_acquire);
  if (watch != nullptr) return *watch;
  watch = static_cast<RegistryWatch*>(FindShared(kWatchName));
  if (watch == nullptr) watch = MakeWatch();
  opt_known.store(watch, std::memory_order_release);
  return *watch;
}

}  // namespace graphffi

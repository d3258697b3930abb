// SPDX-License-Identifier: Apache-2.0
#include "callframe/registry_watch.h"

#include <tvm/ffi/c_api.h>

#include <memory>

#include "callframe/error.h"
#include "callframe/global_function.h"
#include "callframe/value.h"

namespace graphffi {
namespace {

/// Gives the process's to all libraries, which have each a copy of this code.
constexpr std::string_view kWatchName = "graphffi.registry_watch_1";
/// A function of graphffi's own runtime.
constexpr std::string_view kEpochName = "graphffi.registry_epoch";

int GetWatch(void* self, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  *result = MakePointer(self);
  return 0;
}

/// What the function returns; NULL where there is none. \throws Error
void* AskForPointer(std::string_view name) {
  const TVMFFIObjectHandle function = FindGlobalUnlocked(name);
  if (function == nullptr) return nullptr;
  TVMFFIAny result{};
  const int rc = TVMFFIFunctionCall(function, nullptr, 0, &result);
  TVMFFIObjectDecRef(function);
  if (rc != 0) throw Error::TakeRaised(rc);
  return result.v_ptr;
}

RegistryWatch* MakeWatch() {
  auto made = std::make_unique<RegistryWatch>();
  void* const counted = AskForPointer(kEpochName);
  made->epoch =
      counted == nullptr ? &made->own_epoch : static_cast<std::atomic<uint64_t>*>(counted);
  const TVMFFIByteArray name = {kWatchName.data(), kWatchName.size()};
  TVMFFIObjectHandle function = nullptr;
  int rc = TVMFFIFunctionCreate(made.get(), &GetWatch, nullptr, &function);
  if (rc != 0) throw Error::TakeRaised(rc);
  rc = TVMFFIFunctionSetGlobal(&name, function, /*allow_override=*/0);
  TVMFFIObjectDecRef(function);
  if (rc == 0) return made.release();
  Error::TakeRaised(rc);  // another thread was faster
  return static_cast<RegistryWatch*>(AskForPointer(kWatchName));
}

}  // namespace

RegistryWatch& RegistryWatch::Get() {
  // No static variable with a guard, under which a thread could wait for another's GIL.
  static std::atomic<RegistryWatch*> opt_known{nullptr};
  RegistryWatch* watch = opt_known.load(std::memory_order_acquire);
  if (watch != nullptr) return *watch;
  watch = static_cast<RegistryWatch*>(AskForPointer(kWatchName));
  if (watch == nullptr) watch = MakeWatch();
  opt_known.store(watch, std::memory_order_release);
  return *watch;
}

}  // namespace graphffi

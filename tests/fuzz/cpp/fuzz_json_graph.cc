// SPDX-License-Identifier: Apache-2.0
// JSON graphs: what is read is written again, copied, printed and compared.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif
#include <tvm/ffi/function.h>

#include <string>

#include "raised.h"

namespace {

using namespace tvm::ffi;

/// A graph may have cycles, which nobody frees.
struct LeaksAllowed {
#if defined(__SANITIZE_ADDRESS__)
  LeaksAllowed() { __lsan_disable(); }
  ~LeaksAllowed() { __lsan_enable(); }
#endif
};

/// The function's result, or None where it refuses its argument.
Any TryCall(const char* name, const Any& argument) {
  try {
    return Function::GetGlobalRequired(name)(argument);
  } catch (const Error& error) {
    Require(!error.kind().empty() && !error.message().empty());
    return nullptr;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] const LeaksAllowed allowed;
  const Any value =
      TryCall("ffi.FromJSONGraphString", String(reinterpret_cast<const char*>(data), size));
  if (value == nullptr) return 0;
  TryCall("ffi.ReprPrint", value);
  TryCall("ffi.RecursiveHash", value);
  const Any copy = TryCall("ffi.DeepCopy", value);
  const Any text = TryCall("ffi.ToJSONGraphString", value);
  if (text != nullptr) Require(TryCall("ffi.FromJSONGraphString", text) != nullptr);
  return 0;
}

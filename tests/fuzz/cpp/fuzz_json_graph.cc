// SPDX-License-Identifier: Apache-2.0
// JSON graphs: what is read is written again, copied, printed, compared, walked and changed.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
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

/// The function's result, or None where it refuses its arguments.
template <typename... Args>
Any TryCall(const char* name, const Args&... arguments) {
  try {
    return Function::GetGlobalRequired(name)(arguments...);
  } catch (const Error& error) {
    Require(!error.kind().empty() && !error.message().empty());
    return nullptr;
  }
}

using Links = Array<Tuple<int32_t, Function>>;

Links OfInts(const Function& callback) { return {Tuple<int32_t, Function>(kTVMFFIInt, callback)}; }

/// Structural comparison, visit and change; `copy` is what DeepCopy made of the value, or None.
void TryStructural(const Any& value, const Any& copy) {
  for (bool map_free_vars : {false, true}) {
    const Any hash = TryCall("ffi.StructuralHash", value, map_free_vars, false);
    const Any equal = TryCall("ffi.StructuralEqual", value, copy, map_free_vars, false);
    if (equal.as<bool>().value_or(false)) {
      Require(AnyEqual()(hash, TryCall("ffi.StructuralHash", copy, map_free_vars, false)));
    }
    TryCall("ffi.GetFirstStructuralMismatch", value, copy, map_free_vars, false);
  }
  static const Links advance = OfInts(Function::FromTyped([](int64_t) { return 0; }));
  static const Links negate = OfInts(Function::FromTyped([](int64_t x) { return ~x; }));
  for (int32_t order : {0, 1}) {
    TryCall("ffi.StructuralWalk", value, advance, Links(), order);
    TryCall("ffi.StructuralMap", value, negate, Links(), order);
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
  TryCall("ffi.RecursiveEq", value, copy);
  TryCall("ffi.RecursiveLt", value, copy);
  TryStructural(value, copy);
  const Any text = TryCall("ffi.ToJSONGraphString", value);
  if (text != nullptr) Require(TryCall("ffi.FromJSONGraphString", text) != nullptr);
  return 0;
}

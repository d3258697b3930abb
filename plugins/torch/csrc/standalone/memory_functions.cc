// SPDX-License-Identifier: Apache-2.0
// The functions of each library besides its methods: `trim_memory()` and `set_memory_limit(bytes)`.
#include <tvm/ffi/c_api.h>

#include "call/error.h"
#include "call/value.h"
#include "memory.h"

#define GRAPHFFI_EXPORT extern "C" __attribute__((visibility("default")))

GRAPHFFI_EXPORT int __tvm_ffi_trim_memory(void*, const TVMFFIAny*, int32_t num_args, TVMFFIAny*) {
  if (num_args != 0) {
    return graphffi::SetRaised(
        "TypeError", "trim_memory: expected no arguments, got " + std::to_string(num_args));
  }
  graphffi_standalone::TrimMemory();
  return 0;
}

GRAPHFFI_EXPORT int __tvm_ffi_set_memory_limit(void*, const TVMFFIAny* args, int32_t num_args,
                                               TVMFFIAny*) {
  if (num_args != 1 || args[0].type_index != kTVMFFIInt || args[0].v_int64 < 0) {
    return graphffi::SetRaised("TypeError",
                               "set_memory_limit: expected a number of bytes, got other arguments");
  }
  graphffi_standalone::SetMemoryLimit(static_cast<size_t>(args[0].v_int64));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// StructuralHash: the hash that goes with StructuralEqual.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/extra/base.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/accessor.h>

#include <cstdint>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// A function object for containers, and the hash itself.
class StructuralHash {
 public:
  static uint64_t Hash(const Any& value, bool map_free_vars = false,
                       bool skip_tensor_content = false) {
    return static_cast<uint64_t>(
        TVM_FFI_RUNTIME_FUNCTION_("ffi.StructuralHash")(value, map_free_vars, skip_tensor_content)
            .cast<int64_t>());
  }
  uint64_t operator()(const Any& value) const { return Hash(value); }
};
}  // namespace graphffi_v1
}  // namespace tvm::ffi

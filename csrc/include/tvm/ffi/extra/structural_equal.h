// SPDX-License-Identifier: Apache-2.0
// StructuralEqual: equality of structures of objects and containers, as their types' reflection
// says.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/extra/base.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/accessor.h>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// A function object for containers, and the comparisons themselves.
class StructuralEqual {
 public:
  /// map_free_vars: variables that are defined nowhere are equal if they are used alike.
  /// skip_tensor_content: tensors are equal if shape and dtype are.
  static bool Equal(const Any& lhs, const Any& rhs, bool map_free_vars = false,
                    bool skip_tensor_content = false) {
    return TVM_FFI_RUNTIME_FUNCTION_("ffi.StructuralEqual")(lhs, rhs, map_free_vars,
                                                            skip_tensor_content)
        .cast<bool>();
  }
  /// Where the first difference is on either side; nothing if they are equal.
  static Optional<reflection::AccessPathPair> GetFirstMismatch(const Any& lhs, const Any& rhs,
                                                               bool map_free_vars = false,
                                                               bool skip_tensor_content = false) {
    return TVM_FFI_RUNTIME_FUNCTION_("ffi.GetFirstStructuralMismatch")(lhs, rhs, map_free_vars,
                                                                       skip_tensor_content)
        .cast<Optional<reflection::AccessPathPair>>();
  }
  bool operator()(const Any& lhs, const Any& rhs) const { return Equal(lhs, rhs); }
};
}  // namespace graphffi_v1
}  // namespace tvm::ffi

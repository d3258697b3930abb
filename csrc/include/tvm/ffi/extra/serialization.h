// SPDX-License-Identifier: Apache-2.0
// Graphs of objects to JSON and back, with what they share.
#pragma once

#include <tvm/ffi/extra/base.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/accessor.h>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The graph as a JSON value; metadata is stored along with it. \throws Error(TypeError) for
/// objects of types without reflection
inline json::Value ToJSONGraph(const Any& value, const Any& metadata = Any(nullptr)) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.ToJSONGraph")(value, metadata);
}
/// \throws Error for what is no such value
inline Any FromJSONGraph(const json::Value& value) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.FromJSONGraph")(value);
}
}  // namespace graphffi_v1
}  // namespace tvm::ffi

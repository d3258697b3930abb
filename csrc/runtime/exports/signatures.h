// SPDX-License-Identifier: Apache-2.0
// Parameter and result types of the exported functions of TVM FFI's C++ ABI. The mangled names of
// the functions contain the names of these types, and callers pass them by address: nothing but
// names and sizes has to be right.
#pragma once

#include "runtime/core/cpp_error.h"
#include "runtime/modules/module_object.h"

namespace tvm::ffi {

struct Any {
  graphffi::runtime::Any value;
};

template <typename T, typename = void>
struct Optional;
/// None, or an int.
template <>
struct Optional<int, void> {
  graphffi::runtime::Any value;
};

static_assert(sizeof(Any) == 16 && sizeof(Optional<int>) == 16 && sizeof(String) == 16);
static_assert(sizeof(Array) == 8 && sizeof(ObjectRef) == 8);

#define GRAPHFFI_EXPORT __attribute__((visibility("default")))

namespace json {
GRAPHFFI_EXPORT Any Parse(const String& text, String* opt_error);
GRAPHFFI_EXPORT String Stringify(const Any& value, const Optional<int>& indent);
}  // namespace json

GRAPHFFI_EXPORT String ReprPrint(const Any& value);
GRAPHFFI_EXPORT Any DeepCopy(const Any& value);
GRAPHFFI_EXPORT int64_t RecursiveHash(const Any& value);
GRAPHFFI_EXPORT bool RecursiveEq(const Any& a, const Any& b);
GRAPHFFI_EXPORT bool RecursiveLt(const Any& a, const Any& b);
GRAPHFFI_EXPORT bool RecursiveLe(const Any& a, const Any& b);
GRAPHFFI_EXPORT bool RecursiveGt(const Any& a, const Any& b);
GRAPHFFI_EXPORT bool RecursiveGe(const Any& a, const Any& b);
GRAPHFFI_EXPORT Any ToJSONGraph(const Any& value, const Any& metadata);
GRAPHFFI_EXPORT Any FromJSONGraph(const Any& graph);

struct GRAPHFFI_EXPORT StructuralEqual {
  static bool Equal(const Any& a, const Any& b, bool map_free_vars, bool skip_tensor_content);
  /// A pair of paths, or NULL.
  static Array GetFirstMismatch(const Any& a, const Any& b, bool map_free_vars,
                                bool skip_tensor_content);
};

struct GRAPHFFI_EXPORT StructuralHash {
  static uint64_t Hash(const Any& value, bool map_free_vars, bool skip_tensor_content);
};

struct GRAPHFFI_EXPORT VisitErrorContext : ObjectRef {
  static Array FindAccessPaths(const ObjectRef& root, const VisitErrorContext& context,
                               bool allow_prefix_match);
};

}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// The functions of dataclasses, for every type with reflection: deep copies, printing, comparison
// by value.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/variant.h>
#include <tvm/ffi/extra/base.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <ostream>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// A copy of the value and all that it refers to; what was shared stays shared.
inline Any DeepCopy(const Any& value) { return TVM_FFI_RUNTIME_FUNCTION_("ffi.DeepCopy")(value); }
/// The value as its repr in Python.
inline String ReprPrint(const Any& value) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.ReprPrint")(value).cast<String>();
}
inline int64_t RecursiveHash(const Any& value) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.RecursiveHash")(value).cast<int64_t>();
}
inline bool RecursiveEq(const Any& lhs, const Any& rhs) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.RecursiveEq")(lhs, rhs).cast<bool>();
}
inline bool RecursiveLt(const Any& lhs, const Any& rhs) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.RecursiveLt")(lhs, rhs).cast<bool>();
}
inline bool RecursiveLe(const Any& lhs, const Any& rhs) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.RecursiveLe")(lhs, rhs).cast<bool>();
}
inline bool RecursiveGt(const Any& lhs, const Any& rhs) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.RecursiveGt")(lhs, rhs).cast<bool>();
}
inline bool RecursiveGe(const Any& lhs, const Any& rhs) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.RecursiveGe")(lhs, rhs).cast<bool>();
}

inline std::ostream& operator<<(std::ostream& os, const Any& value) {
  return os << ReprPrint(value);
}
inline std::ostream& operator<<(std::ostream& os, const ObjectRef& value) {
  return os << ReprPrint(Any(value));
}
template <typename... Types>
std::ostream& operator<<(std::ostream& os, const Variant<Types...>& value) {
  return os << ReprPrint(Any(value));
}
template <typename T>
std::ostream& operator<<(std::ostream& os, const Optional<T>& value) {
  return os << ReprPrint(Any(value));
}
}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// Parts that visitors and mutators share whose callbacks are functions of a host language.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/function.h>

#include <optional>

#include "runtime/containers/on_headers.h"
#include "runtime/core/find_type.h"
#include "stack_guard.h"

namespace graphffi::runtime {

/// Functions, each for values of a type and those derived from it.
using Links = ffi::Array<ffi::Tuple<int32_t, ffi::Function>>;

inline bool IsOfType(int32_t index, int32_t expected) {
  if (index == expected || expected == kTVMFFIAny) return true;
  if (expected == kTVMFFIStr) return index == kTVMFFISmallStr;
  if (expected == kTVMFFIBytes) return index == kTVMFFISmallBytes;
  return IsInstance(index, expected);
}

/// The first link for the value; nothing if none fits.
template <typename Link>
std::optional<Link> FindLink(const ffi::Array<Link>& links, AnyView value) {
  for (const Link& link : links) {
    if (IsOfType(value.type_index(), link.template get<0>())) return link;
  }
  return std::nullopt;
}

using Called = std::optional<ffi::Expected<Any>>;

/// Calls the first function for the value; those of `with_region` get the region, too. Nothing if
/// none fits.
inline Called CallLink(const Links& links, const Links& with_region, AnyView value,
                       TVMFFIDefRegionKind region) noexcept {
  if (auto link = FindLink(links, value)) {
    return link->get<1>().CallExpected<Any>(value);
  }
  if (auto link = FindLink(with_region, value)) {
    return link->get<1>().CallExpected<Any>(value, static_cast<int32_t>(region));
  }
  return std::nullopt;
}

/// The region that a StructuralVisitor or StructuralMutator is in.
template <typename Engine>
int32_t DefRegionKindOf(const Engine& engine) {
  return static_cast<int32_t>(engine->def_region_kind());
}

/// Calls `callback` while the engine is in the region `kind`.
template <typename Engine>
auto CallInRegion(const Engine& engine, int32_t kind, const ffi::Function& callback) {
  return engine->WithDefRegionKind(static_cast<TVMFFIDefRegionKind>(kind),
                                   [&] { return callback(); });
}

}  // namespace graphffi::runtime

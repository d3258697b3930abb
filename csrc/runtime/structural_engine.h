// SPDX-License-Identifier: Apache-2.0
// Parts that visitors and mutators share whose callbacks are functions of a host language.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/function.h>

#include <optional>

#include "stack_guard.h"

namespace graphffi::runtime {

// Declared in type_registry.h, which is not included: other names there are like those of tvm::ffi.
bool IsInstance(int32_t type_index, int32_t expected);

/// Functions, each for values of a type and those derived from it.
using Links = tvm::ffi::Array<tvm::ffi::Tuple<int32_t, tvm::ffi::Function>>;

inline bool IsOfType(int32_t index, int32_t expected) {
  if (index == expected || expected == kTVMFFIAny) return true;
  if (expected == kTVMFFIStr) return index == kTVMFFISmallStr;
  if (expected == kTVMFFIBytes) return index == kTVMFFISmallBytes;
  return IsInstance(index, expected);
}

/// The first link for the value; nothing if none fits.
template <typename Link>
std::optional<Link> FindLink(const tvm::ffi::Array<Link>& links, tvm::ffi::AnyView value) {
  for (const Link& link : links) {
    if (IsOfType(value.type_index(), link.template get<0>())) return link;
  }
  return std::nullopt;
}

using Called = std::optional<tvm::ffi::Expected<tvm::ffi::Any>>;

/// Calls the first function for the value; those of `with_region` get the region, too. Nothing if
/// none fits.
inline Called CallLink(const Links& links, const Links& with_region, tvm::ffi::AnyView value,
                       TVMFFIDefRegionKind region) noexcept {
  if (auto link = FindLink(links, value)) {
    return link->get<1>().CallExpected<tvm::ffi::Any>(value);
  }
  if (auto link = FindLink(with_region, value)) {
    return link->get<1>().CallExpected<tvm::ffi::Any>(value, static_cast<int32_t>(region));
  }
  return std::nullopt;
}

}  // namespace graphffi::runtime

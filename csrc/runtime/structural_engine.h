// SPDX-License-Identifier: Apache-2.0
// What visitors and mutators that call functions of a host language share.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/extra/visit_error_context.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/accessor.h>

#include <optional>
#include <utility>

namespace graphffi::runtime {

// Of type_registry.h, other names of which are like those of tvm::ffi.
bool IsInstance(int32_t type_index, int32_t expected);

/// Functions, each for values of a type and those derived from it.
using Links = tvm::ffi::Array<tvm::ffi::Tuple<int32_t, tvm::ffi::Function>>;

inline bool IsOfType(int32_t index, int32_t expected) {
  if (index == expected || expected == kTVMFFIAny) return true;
  if (expected == kTVMFFIStr) return index == kTVMFFISmallStr;
  if (expected == kTVMFFIBytes) return index == kTVMFFISmallBytes;
  return IsInstance(index, expected);
}

/// Calls the first function for the value; those of `with_region` get the region, too. Nothing if
/// none fits.
inline std::optional<tvm::ffi::Any> CallLink(const Links& links, const Links& with_region,
                                             tvm::ffi::AnyView value, TVMFFIDefRegionKind region) {
  for (const auto& link : links) {
    if (IsOfType(value.type_index(), link.get<0>())) return link.get<1>()(value);
  }
  for (const auto& link : with_region) {
    if (!IsOfType(value.type_index(), link.get<0>())) continue;
    return link.get<1>()(value, static_cast<int32_t>(region));
  }
  return std::nullopt;
}

/// The region of a visitor or mutator for a while; that of a pattern stays.
class RegionScope {
 public:
  RegionScope(TVMFFIDefRegionKind* region, TVMFFIDefRegionKind inner)
      : region_(region), outer_(*region) {
    if (outer_ != kTVMFFIDefRegionKindPattern) *region_ = inner;
  }
  ~RegionScope() { *region_ = outer_; }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

  /// Of a field: the one around it, unless the field says otherwise.
  static TVMFFIDefRegionKind OfField(const TVMFFIFieldInfo* field, TVMFFIDefRegionKind outer) {
    if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashDefSimple) != 0) {
      return kTVMFFIDefRegionKindSimple;
    }
    bool is_pattern = (field->flags & kTVMFFIFieldFlagBitMaskSEqHashDefPattern) != 0;
    return is_pattern ? kTVMFFIDefRegionKindPattern : outer;
  }
  /// Of the fields of an object: a simple definition is that of a variable itself.
  static TVMFFIDefRegionKind OfFields(int32_t identity, TVMFFIDefRegionKind outer) {
    bool ends = identity == kTVMFFISEqHashKindFreeVar && outer == kTVMFFIDefRegionKindSimple;
    return ends ? kTVMFFIDefRegionKindNone : outer;
  }

 private:
  TVMFFIDefRegionKind* region_;
  TVMFFIDefRegionKind outer_;
};

inline int32_t IdentityKind(const TVMFFITypeInfo* type) {
  return type->metadata == nullptr ? kTVMFFISEqHashKindUnsupported
                                   : type->metadata->structural_eq_hash_kind;
}

inline TVMFFIAny Release(tvm::ffi::Any value) {
  return tvm::ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value));
}
inline tvm::ffi::Any Adopt(TVMFFIAny value) {
  return tvm::ffi::detail::AnyUnsafe::MoveTVMFFIAnyToAny(&value);
}

/// The result, or the error that body throws as a value. Errors remember the node.
template <typename Body>
tvm::ffi::Any RunAt(tvm::ffi::AnyView node, Body&& body) noexcept {
  auto leave = [node](tvm::ffi::Error error) {
    tvm::ffi::detail::UpdateVisitErrorContext(error, node);
    return tvm::ffi::Any(error);
  };
  try {
    tvm::ffi::Any result = body();
    if (result.type_index() != kTVMFFIError) return result;
    return leave(result.cast<tvm::ffi::Error>());
  } catch (const tvm::ffi::Error& error) {
    return leave(error);
  } catch (const std::exception& error) {
    return leave(tvm::ffi::Error("InternalError", error.what(), ""));
  }
}

/// \throws the error, if that is the result
inline tvm::ffi::Any ValueOrThrow(tvm::ffi::Any result) {
  if (result.type_index() == kTVMFFIError) throw result.cast<tvm::ffi::Error>();
  return result;
}

}  // namespace graphffi::runtime

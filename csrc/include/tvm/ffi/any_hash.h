// SPDX-License-Identifier: Apache-2.0
// AnyHash and AnyEqual: the hash and equality of map keys, which the layout of maps depends on.
#pragma once

#include <tvm/ffi/any.h>

#include <cstring>
#include <string_view>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// A type's own hash or equality, if it registered one as an attribute; null otherwise.
inline const TVMFFIAny* OptTypeAttr(const char* name, int32_t type_index) {
  TVMFFIByteArray key = {name, std::strlen(name)};
  const TVMFFITypeAttrColumn* column = TVMFFIGetTypeAttrColumn(&key);
  if (column == nullptr) return nullptr;
  int64_t offset = static_cast<int64_t>(type_index) - column->begin_index;
  if (offset < 0 || offset >= column->size || column->data[offset].type_index == kTVMFFINone) {
    return nullptr;
  }
  return &column->data[offset];
}

/// Calls a type's attribute: a function object, or a plain function that takes its arguments by
/// pointer. \throws Error(TypeError) if it is neither, or gives no integer
inline int64_t CallTypeAttr(const TVMFFIAny& attr, const TVMFFIAny* args, int32_t num_args) {
  TVMFFIAny result{};
  if (attr.type_index == kTVMFFIOpaquePtr) {
    using Unary = TVMFFIAny (*)(const TVMFFIAny*);
    using Binary = TVMFFIAny (*)(const TVMFFIAny*, const TVMFFIAny*);
    result = num_args == 1 ? reinterpret_cast<Unary>(attr.v_ptr)(args)
                           : reinterpret_cast<Binary>(attr.v_ptr)(args, args + 1);
    if (result.type_index == kTVMFFIError) {
      throw Error(ObjectUnsafe::ObjectPtrFromOwned<ErrorObj>(result.v_obj));
    }
  } else if (attr.type_index == kTVMFFIFunction) {
    auto* function = static_cast<TVMFFIObject*>(attr.v_obj);
    int rc = TVMFFIFunctionGetCellPtr(function)->safe_call(function, args, num_args, &result);
    if (rc != 0) ThrowSafeCallRaised(rc);
  } else {
    ThrowCannotTreat(TypeIndexToTypeKey(attr.type_index), StaticTypeKey::kTVMFFIFunction);
  }
  return AnyUnsafe::MoveTVMFFIAnyToAny(&result).cast<int64_t>();
}

constexpr uint64_t kHashModulus = 2147483647;

/// The hash of a string's bytes that map layouts depend on.
inline uint64_t StableHashBytes(const char* data, size_t size) {
  constexpr uint64_t kMultiplier = 1099511628211ull;
  uint64_t hash = 0;
  while (size > 0) {
    size_t count = size < sizeof(uint64_t) ? size : sizeof(uint64_t);
    uint64_t word = 0;
    std::memcpy(&word, data, count);
    hash = (hash * kMultiplier + word) % kHashModulus;
    data += count;
    size -= count;
  }
  return hash;
}

inline bool IsString(int32_t type_index) {
  return type_index == kTVMFFISmallStr || type_index == kTVMFFIStr;
}
inline bool IsBytes(int32_t type_index) {
  return type_index == kTVMFFISmallBytes || type_index == kTVMFFIBytes;
}

}  // namespace detail

/// The hash of map keys: contents of strings and bytes, the payload of other values, identity of
/// objects unless their type has an `__any_hash__` attribute.
struct AnyHash {
  uint64_t operator()(const Any& value) const {
    const TVMFFIAny* data = detail::AnyUnsafe::TVMFFIAnyPtrFromAny(value);
    int32_t index = data->type_index;
    if (detail::IsString(index) || detail::IsBytes(index)) {
      std::string_view content = detail::BytesContent(data);
      return detail::StableHashCombine(detail::IsString(index) ? kTVMFFIStr : kTVMFFIBytes,
                                       detail::StableHashBytes(content.data(), content.size()));
    }
    if (index >= kTVMFFIStaticObjectBegin) {
      if (const TVMFFIAny* attr = detail::OptTypeAttr("__any_hash__", index)) {
        return detail::StableHashCombine(
            static_cast<uint64_t>(index),
            static_cast<uint64_t>(detail::CallTypeAttr(*attr, data, 1)));
      }
    }
    return detail::StableHashCombine(static_cast<uint64_t>(index), data->v_uint64);
  }
};

/// The equality of map keys, matching AnyHash: 1 and 1.0 differ.
struct AnyEqual {
  bool operator()(const Any& a, const Any& b) const {
    const TVMFFIAny* x = detail::AnyUnsafe::TVMFFIAnyPtrFromAny(a);
    const TVMFFIAny* y = detail::AnyUnsafe::TVMFFIAnyPtrFromAny(b);
    if (detail::IsString(x->type_index) || detail::IsBytes(x->type_index)) {
      bool same_kind = detail::IsString(x->type_index) ? detail::IsString(y->type_index)
                                                       : detail::IsBytes(y->type_index);
      return same_kind && detail::BytesContent(x) == detail::BytesContent(y);
    }
    if (x->type_index != y->type_index) return false;
    if (x->v_uint64 == y->v_uint64) return true;
    if (x->type_index >= kTVMFFIStaticObjectBegin) {
      if (const TVMFFIAny* attr = detail::OptTypeAttr("__any_equal__", x->type_index)) {
        TVMFFIAny args[2] = {*x, *y};
        return detail::CallTypeAttr(*attr, args, 2) != 0;
      }
    }
    return false;
  }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// StructuralKey: a value as a key of a hash table, by structure instead of by identity.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/extra/structural_equal.h>
#include <tvm/ffi/extra/structural_hash.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

class StructuralKeyObj : public Object {
 public:
  Any key;
  /// Computed once.
  int64_t hash_i64 = 0;

  StructuralKeyObj() = default;
  explicit StructuralKeyObj(Any value)
      : key(std::move(value)), hash_i64(static_cast<int64_t>(StructuralHash::Hash(key))) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("ffi.StructuralKey", StructuralKeyObj, Object);
};

class StructuralKey : public ObjectRef {
 public:
  explicit StructuralKey(Any key) : ObjectRef(make_object<StructuralKeyObj>(std::move(key))) {}
  bool operator==(const StructuralKey& other) const {
    return same_as(other) ||
           (get()->hash_i64 == other->hash_i64 && StructuralEqual::Equal(get()->key, other->key));
  }
  bool operator!=(const StructuralKey& other) const { return !(*this == other); }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(StructuralKey, ObjectRef, StructuralKeyObj);
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

template <>
struct std::hash<tvm::ffi::StructuralKey> {
  size_t operator()(const tvm::ffi::StructuralKey& key) const {
    return static_cast<size_t>(key->hash_i64);
  }
};

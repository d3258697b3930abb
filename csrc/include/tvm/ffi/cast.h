// SPDX-License-Identifier: Apache-2.0
// From raw object pointers back to counted references.
#pragma once

#include <tvm/ffi/object.h>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// A counted pointer to an object that somebody already owns. object may be null.
template <typename BaseType, typename ObjectType>
ObjectPtr<BaseType> GetObjectPtr(ObjectType* object) {
  static_assert(std::is_base_of_v<BaseType, ObjectType>, "the object is of another type");
  return detail::ObjectUnsafe::ObjectPtrFromUnowned<BaseType>(
      const_cast<Object*>(static_cast<const Object*>(object)));
}

/// A reference to an object that somebody already owns; object is null only for nullable reference
/// types.
template <typename RefType, typename ObjectType>
RefType GetRef(const ObjectType* object) {
  static_assert(std::is_base_of_v<typename RefType::ContainerType, ObjectType>,
                "the reference is to another type");
  return detail::ObjectUnsafe::ObjectRefFromObjectPtr<RefType>(
      detail::ObjectUnsafe::ObjectPtrFromUnowned<Object>(
          const_cast<Object*>(static_cast<const Object*>(object))));
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

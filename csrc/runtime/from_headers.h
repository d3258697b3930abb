// SPDX-License-Identifier: Apache-2.0
// Values and objects of the kernel-author headers as those of the runtime, and back. Only for files
// that have no other names of tvm::ffi.
#pragma once

#include <tvm/ffi/any.h>

#include <utility>

#include "any.h"

namespace graphffi::runtime {

namespace ffi = tvm::ffi;

inline ffi::Any ToHeaders(Any value) {
  return ffi::detail::AnyUnsafe::MoveTVMFFIAnyToAny(value.Release());
}
inline Any FromHeaders(ffi::Any value) {
  return Any::Steal(ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value)));
}
template <typename T>
ObjectPtr<> FromHeaders(ffi::ObjectPtr<T> object) {
  return ObjectPtr<>::Steal(
      ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(object)));
}
inline const TVMFFIAny& ViewOf(const ffi::Any& value) {
  return *ffi::detail::AnyUnsafe::TVMFFIAnyPtrFromAny(value);
}

/// An object as a class of the headers; borrowed.
template <typename T>
T* As(TVMFFIObject* object) {
  return static_cast<T*>(reinterpret_cast<ffi::Object*>(object));
}

}  // namespace graphffi::runtime

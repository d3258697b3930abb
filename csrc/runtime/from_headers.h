// SPDX-License-Identifier: Apache-2.0
// Values and objects of the kernel-author headers as those of the runtime, and back. Only for files
// that have no other names of tvm::ffi.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/error.h>

#include <utility>

#include "any.h"
#include "builtin.h"
#include "error.h"

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
/// An argument that is a T.
template <typename T>
ffi::ObjectPtr<T> ArgumentAs(const BuiltinArgs& args, int32_t index = 0) {
  return ffi::detail::ObjectUnsafe::ObjectPtrFromUnowned<T>(args.Object(index, T::_type_index));
}
inline ffi::Any ArgumentAt(const BuiltinArgs& args, int32_t index) {
  return ToHeaders(Any::FromView(args[index]));
}

/// Runs code that throws errors of the headers, which carry an object.
template <typename Body>
auto WithHeaders(Body&& body) {
  try {
    return body();
  } catch (const ffi::Error& error) {
    TVMFFIErrorSetRaised(const_cast<ffi::ErrorObj*>(error.get()));
    throw ForeignError{-1};
  }
}

}  // namespace graphffi::runtime

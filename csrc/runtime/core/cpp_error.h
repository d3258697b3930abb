// SPDX-License-Identifier: Apache-2.0
// The exception of TVM FFI's C++ ABI. It crosses library boundaries in C++ calls, such as those of
// a module's virtual functions, so its name, bases and layout are fixed.
#pragma once

#include <exception>

#include "error.h"

namespace tvm::ffi {

/// A pointer to an object, or NULL.
class __attribute__((visibility("default"))) ObjectRef {
 public:
  explicit ObjectRef(graphffi::runtime::ObjectPtr<> object) : object_(std::move(object)) {}
  const graphffi::runtime::ObjectPtr<>& object() const { return object_; }

 private:
  graphffi::runtime::ObjectPtr<> object_;
};

class __attribute__((visibility("default"))) Error : public ObjectRef, public std::exception {
 public:
  using ObjectRef::ObjectRef;
  /// The message. Valid as long as the error object lives.
  const char* what() const noexcept override;
};

}  // namespace tvm::ffi

namespace graphffi::runtime {

/// Takes the error out of the thread's slot and throws it.
[[noreturn]] void ThrowRaisedToCpp();

/// Runs the body of a function of the C++ ABI: what the runtime throws leaves it as
/// tvm::ffi::Error.
template <typename Body>
auto RunForCpp(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw tvm::ffi::Error(MakeError(error.kind, error.message));
  } catch (const ForeignError&) {
    ThrowRaisedToCpp();
  }
}

}  // namespace graphffi::runtime

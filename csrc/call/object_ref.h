// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tvm/ffi/c_api.h>

#include <utility>

namespace graphffi {

/// A strong reference to an object of the runtime, or nothing.
class ObjectRef {
 public:
  ObjectRef() = default;
  /// Takes the reference over.
  explicit ObjectRef(TVMFFIObjectHandle owned) : handle_(owned) {}
  ~ObjectRef() {
    if (handle_ != nullptr) TVMFFIObjectDecRef(handle_);
  }
  ObjectRef(ObjectRef&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ObjectRef& operator=(ObjectRef&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  static ObjectRef Retain(TVMFFIObjectHandle borrowed) {
    TVMFFIObjectIncRef(borrowed);
    return ObjectRef(borrowed);
  }

  TVMFFIObjectHandle get() const { return handle_; }
  TVMFFIObjectHandle release() { return std::exchange(handle_, nullptr); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  TVMFFIObjectHandle handle_ = nullptr;
};

}  // namespace graphffi

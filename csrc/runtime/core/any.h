// SPDX-License-Identifier: Apache-2.0
// The owning value. Views are plain `const TVMFFIAny&`.
#pragma once

#include <utility>

#include "object.h"

namespace graphffi::runtime {

constexpr TVMFFIAny kNone = {kTVMFFINone, {0}, {0}};

inline bool HoldsObject(const TVMFFIAny& value) {
  return value.type_index >= kTVMFFIStaticObjectBegin;
}

/// A value that owns one reference if it is an object.
class Any {
 public:
  Any() : value_(kNone) {}
  Any(const Any& other) : value_(other.value_) {
    if (HoldsObject(value_)) IncRef(value_.v_obj);
  }
  Any(Any&& other) noexcept : value_(std::exchange(other.value_, kNone)) {}
  Any& operator=(Any other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Any() {
    if (HoldsObject(value_)) DecRef(value_.v_obj);
  }

  /// Takes over an owned value.
  static Any Steal(TVMFFIAny owned) {
    Any result;
    result.value_ = owned;
    return result;
  }
  /// Owns what the view shows: text is copied, an rvalue reference emptied.
  static Any FromView(const TVMFFIAny& view);
  static Any Int(int64_t number);
  static Any Bool(bool truth);
  static Any Pointer(void* address);
  template <typename T>
  static Any Object(ObjectPtr<T> object) {
    if (!object) return Any();
    TVMFFIAny value = {object.header()->type_index, {0}, {0}};
    value.v_obj = object.header();
    static_cast<void>(object.Release());
    return Steal(value);
  }

  const TVMFFIAny& view() const { return value_; }
  int32_t type_index() const { return value_.type_index; }
  /// For callees that write an owned result.
  TVMFFIAny* out() { return &value_; }
  TVMFFIAny Release() { return std::exchange(value_, kNone); }

 private:
  TVMFFIAny value_;
};

static_assert(sizeof(Any) == 16, "containers hold Any where the ABI says TVMFFIAny");

}  // namespace graphffi::runtime

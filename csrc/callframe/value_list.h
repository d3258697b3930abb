// SPDX-License-Identifier: Apache-2.0
// Values of a call, in room that the caller has for them.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace graphffi {

/// An array that begins in borrowed memory and moves to the heap when that is full.
class ValueList {
 public:
  ValueList(TVMFFIAny* room, int32_t capacity) : values_(room), capacity_(capacity) {}
  ~ValueList() {
    if (__builtin_expect(opt_heap_ != nullptr, 0)) std::free(opt_heap_);
  }
  ValueList(const ValueList&) = delete;
  ValueList& operator=(const ValueList&) = delete;

  /// The place of one more value, to be filled in. \throws std::bad_alloc
  TVMFFIAny* Add() {
    if (__builtin_expect(size_ == capacity_, 0)) Grow();
    return values_ + size_++;
  }
  int32_t size() const { return size_; }
  const TVMFFIAny* data() const { return values_; }
  TVMFFIAny& operator[](int32_t i) { return values_[i]; }
  const TVMFFIAny& operator[](int32_t i) const { return values_[i]; }

 private:
  __attribute__((noinline)) void Grow() {
    const int32_t capacity = 2 * capacity_ + 16;
    auto* grown =
        static_cast<TVMFFIAny*>(std::malloc(sizeof(TVMFFIAny) * static_cast<size_t>(capacity)));
    if (grown == nullptr) throw std::bad_alloc();
    for (int32_t i = 0; i < size_; ++i) grown[i] = values_[i];
    std::free(opt_heap_);
    values_ = opt_heap_ = grown;
    capacity_ = capacity;
  }

  TVMFFIAny* values_;
  int32_t size_ = 0, capacity_;
  TVMFFIAny* opt_heap_ = nullptr;
};

}  // namespace graphffi

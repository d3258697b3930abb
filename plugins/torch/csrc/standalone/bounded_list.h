// SPDX-License-Identifier: Apache-2.0
// Lists whose greatest length is known when they are made: those of a call are on its stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace graphffi_standalone {

/// At most `capacity` elements; up to kInline of them cost no allocation.
template <typename T>
class BoundedList {
 public:
  explicit BoundedList(int32_t capacity)
      : begin_(capacity <= kInline
                   ? reinterpret_cast<T*>(inline_)
                   : static_cast<T*>(::operator new(sizeof(T) * static_cast<size_t>(capacity)))) {}
  /// A full list, of copies of a value.
  BoundedList(int32_t size, const T& value) : BoundedList(size) {
    for (int32_t i = 0; i < size; ++i) Add(value);
  }
  ~BoundedList() {
    std::destroy_n(begin_, size_);
    if (begin_ != reinterpret_cast<T*>(inline_)) ::operator delete(begin_);
  }
  BoundedList(const BoundedList&) = delete;
  BoundedList& operator=(const BoundedList&) = delete;

  template <typename... Values>
  T& Add(Values&&... values) {
    return *new (begin_ + size_++) T(std::forward<Values>(values)...);
  }

  T* data() { return begin_; }
  const T* data() const { return begin_; }
  int32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](int32_t i) { return begin_[i]; }
  const T& operator[](int32_t i) const { return begin_[i]; }
  T* begin() { return begin_; }
  T* end() { return begin_ + size_; }
  const T* begin() const { return begin_; }
  const T* end() const { return begin_ + size_; }

 private:
  static constexpr int32_t kInline = 12;

  T* const begin_;
  int32_t size_ = 0;
  alignas(T) unsigned char inline_[kInline * sizeof(T)];
};

}  // namespace graphffi_standalone

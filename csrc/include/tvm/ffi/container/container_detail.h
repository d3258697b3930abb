// SPDX-License-Identifier: Apache-2.0
// Parts that the containers share: iterators over owned values, which element types include which,
// default elements.
#pragma once

#include <tvm/ffi/any.h>

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// Types that a container can hold.
template <typename T>
inline constexpr bool storage_enabled_v = std::is_same_v<T, Any> || TypeTraits<T>::storage_enabled;
template <typename... T>
inline constexpr bool all_storage_enabled_v = (storage_enabled_v<T> && ...);
template <typename... T>
inline constexpr bool all_object_ref_v = (std::is_base_of_v<ObjectRef, T> && ...);

template <typename T>
T ElementAs(const Any& element) {
  return AnyUnsafe::CopyFromAnyViewAfterCheck<T>(element);
}

/// Random access over an array of Any, giving T by value.
template <typename T>
class ElementIterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using pointer = const T*;
  // const: callers write `for (auto& element : array)`.
  using reference = const T;

  ElementIterator() = default;
  explicit ElementIterator(const Any* element) : element_(element) {}

  const T operator*() const { return ElementAs<T>(*element_); }
  const T operator[](difference_type n) const { return ElementAs<T>(element_[n]); }
  ElementIterator& operator++() { return *this += 1; }
  ElementIterator& operator--() { return *this += -1; }
  ElementIterator operator++(int) { return ElementIterator(element_++); }
  ElementIterator operator--(int) { return ElementIterator(element_--); }
  ElementIterator& operator+=(difference_type n) {
    element_ += n;
    return *this;
  }
  ElementIterator& operator-=(difference_type n) { return *this += -n; }
  ElementIterator operator+(difference_type n) const { return ElementIterator(element_ + n); }
  ElementIterator operator-(difference_type n) const { return ElementIterator(element_ - n); }
  friend ElementIterator operator+(difference_type n, ElementIterator it) { return it + n; }
  difference_type operator-(ElementIterator other) const { return element_ - other.element_; }

  bool operator==(ElementIterator other) const { return element_ == other.element_; }
  bool operator!=(ElementIterator other) const { return element_ != other.element_; }
  bool operator<(ElementIterator other) const { return element_ < other.element_; }
  bool operator>(ElementIterator other) const { return element_ > other.element_; }
  bool operator<=(ElementIterator other) const { return element_ <= other.element_; }
  bool operator>=(ElementIterator other) const { return element_ >= other.element_; }

 private:
  const Any* element_ = nullptr;
};

template <typename T, typename = void>
struct IsIterator : std::false_type {};
template <typename T>
struct IsIterator<T, std::void_t<typename std::iterator_traits<T>::iterator_category>>
    : std::true_type {};

}  // namespace detail
}  // namespace graphffi_v1
}  // namespace tvm::ffi

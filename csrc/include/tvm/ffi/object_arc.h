// SPDX-License-Identifier: Apache-2.0
// Arc<T>: an ObjectPtr that is never null.
#pragma once

#include <tvm/ffi/object_ptr.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// A counted pointer that is not null, unless it was moved from. Made by make_arc.
template <typename T>
class Arc : public ObjectPtr<T> {
 public:
  Arc() = delete;
  Arc(std::nullptr_t) = delete;
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  Arc(const Arc<U>& other) : ObjectPtr<T>(other) {}  // NOLINT(runtime/explicit)
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  Arc(Arc<U>&& other) noexcept  // NOLINT(runtime/explicit)
      : ObjectPtr<T>(static_cast<ObjectPtr<U>&&>(other)) {}
  /// Null, for code that fills it in before anybody reads it.
  explicit Arc(UnsafeInit) {}

  // They would leave it null.
  void reset() = delete;
  void swap(ObjectPtr<T>& other) = delete;

 private:
  friend struct detail::ObjectUnsafe;
  explicit Arc(ObjectPtr<T> pointer) : ObjectPtr<T>(std::move(pointer)) {}
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

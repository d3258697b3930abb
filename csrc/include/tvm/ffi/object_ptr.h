// SPDX-License-Identifier: Apache-2.0
// ObjectPtr and WeakObjectPtr: counted pointers to objects.
#pragma once

#include <tvm/ffi/object_base.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

struct ObjectPtrHash;

template <typename T>
class WeakObjectPtr;

/// A counted pointer to an object; null when default constructed.
template <typename T>
class ObjectPtr {
 public:
  ObjectPtr() = default;
  ObjectPtr(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  ObjectPtr(const ObjectPtr& other) : ObjectPtr(other.data_, Retain{}) {}
  ObjectPtr(ObjectPtr&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  ObjectPtr(const ObjectPtr<U>& other) : ObjectPtr(other.data_, Retain{}) {}  // NOLINT
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  ObjectPtr(ObjectPtr<U>&& other) noexcept  // NOLINT(runtime/explicit)
      : data_(std::exchange(other.data_, nullptr)) {}
  ~ObjectPtr() { reset(); }

  ObjectPtr& operator=(const ObjectPtr& other) {
    ObjectPtr(other).swap(*this);
    return *this;
  }
  ObjectPtr& operator=(ObjectPtr&& other) noexcept {
    ObjectPtr(std::move(other)).swap(*this);
    return *this;
  }
  ObjectPtr& operator=(std::nullptr_t) {
    reset();
    return *this;
  }

  void swap(ObjectPtr& other) noexcept { std::swap(data_, other.data_); }
  void reset() {
    if (data_ != nullptr) {
      detail::DecRef(reinterpret_cast<TVMFFIObject*>(std::exchange(data_, nullptr)));
    }
  }

  T* get() const { return static_cast<T*>(data_); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  explicit operator bool() const { return data_ != nullptr; }
  int use_count() const { return data_ != nullptr ? data_->use_count() : 0; }
  bool unique() const { return data_ != nullptr && data_->unique(); }

  bool operator==(const ObjectPtr& other) const { return data_ == other.data_; }
  bool operator!=(const ObjectPtr& other) const { return data_ != other.data_; }
  bool operator==(std::nullptr_t) const { return data_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return data_ != nullptr; }

 private:
  template <typename>
  friend class ObjectPtr;
  template <typename>
  friend class WeakObjectPtr;
  friend struct detail::ObjectUnsafe;
  friend struct ObjectPtrHash;

  struct Retain {};
  ObjectPtr(Object* object, Retain) : data_(object) {
    if (data_ != nullptr) detail::IncRef(reinterpret_cast<TVMFFIObject*>(data_));
  }
  explicit ObjectPtr(Object* owned) : data_(owned) {}

  Object* data_ = nullptr;
};

/// Watches an object without keeping its contents alive.
template <typename T>
class WeakObjectPtr {
 public:
  WeakObjectPtr() = default;
  WeakObjectPtr(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  WeakObjectPtr(const WeakObjectPtr& other) : WeakObjectPtr(other.data_) {}
  WeakObjectPtr(WeakObjectPtr&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  WeakObjectPtr(const ObjectPtr<U>& other) : WeakObjectPtr(other.data_) {}  // NOLINT
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  WeakObjectPtr(const WeakObjectPtr<U>& other) : WeakObjectPtr(other.data_) {}  // NOLINT
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  WeakObjectPtr(WeakObjectPtr<U>&& other) noexcept  // NOLINT(runtime/explicit)
      : data_(std::exchange(other.data_, nullptr)) {}
  ~WeakObjectPtr() { reset(); }

  WeakObjectPtr& operator=(const WeakObjectPtr& other) {
    WeakObjectPtr(other).swap(*this);
    return *this;
  }
  WeakObjectPtr& operator=(WeakObjectPtr&& other) noexcept {
    WeakObjectPtr(std::move(other)).swap(*this);
    return *this;
  }

  /// A strong pointer, null if the object's contents are already gone.
  ObjectPtr<T> lock() const {
    if (data_ == nullptr) return nullptr;
    uint64_t* count = CountOf(data_);
    uint64_t seen = __atomic_load_n(count, __ATOMIC_RELAXED);
    while ((seen & detail::kStrongMask) != 0) {
      if (__atomic_compare_exchange_n(count, &seen, seen + detail::kStrongOne, true,
                                      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return ObjectPtr<T>(data_);
      }
    }
    return nullptr;
  }
  bool expired() const { return use_count() == 0; }
  int use_count() const { return data_ != nullptr ? data_->use_count() : 0; }
  void swap(WeakObjectPtr& other) noexcept { std::swap(data_, other.data_); }
  void reset() {
    Object* object = std::exchange(data_, nullptr);
    if (object == nullptr) return;
    auto* header = reinterpret_cast<TVMFFIObject*>(object);
    if (__atomic_fetch_sub(CountOf(object), detail::kWeakOne, __ATOMIC_ACQ_REL) ==
            detail::kWeakOne &&
        header->deleter != nullptr) {
      header->deleter(header, kTVMFFIObjectDeleterFlagBitMaskWeak);
    }
  }

 private:
  template <typename>
  friend class WeakObjectPtr;

  explicit WeakObjectPtr(Object* object) : data_(object) {
    if (data_ != nullptr) {
      __atomic_fetch_add(CountOf(data_), detail::kWeakOne, __ATOMIC_RELAXED);
    }
  }
  static uint64_t* CountOf(Object* object) {
    return &reinterpret_cast<TVMFFIObject*>(object)->combined_ref_count;
  }

  Object* data_ = nullptr;
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

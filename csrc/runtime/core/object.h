// SPDX-License-Identifier: Apache-2.0
// Counted objects: reference counts, creation, and the pointer that owns one reference.
#pragma once

#include <tvm/ffi/object_base.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

namespace graphffi::runtime {

using tvm::ffi::detail::DecRef;
using tvm::ffi::detail::IncRef;
using tvm::ffi::detail::kUniqueCount;

/// Owns one strong reference to a T, whose first member is the object header (or which is the
/// header).
template <typename T = TVMFFIObject>
class ObjectPtr {
 public:
  ObjectPtr() = default;
  ObjectPtr(const ObjectPtr& other) : object_(other.object_) {
    if (object_ != nullptr) IncRef(header());
  }
  ObjectPtr(ObjectPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ObjectPtr& operator=(ObjectPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~ObjectPtr() {
    if (object_ != nullptr) DecRef(header());
  }

  /// Takes over the reference that the caller has.
  static ObjectPtr Steal(void* object) {
    ObjectPtr result;
    result.object_ = static_cast<T*>(object);
    return result;
  }
  /// Adds a reference; NULL gives an empty pointer.
  static ObjectPtr Share(void* object) {
    if (object != nullptr) IncRef(static_cast<TVMFFIObject*>(object));
    return Steal(object);
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  /// Hands the reference over to the caller.
  T* Release() { return std::exchange(object_, nullptr); }
  TVMFFIObject* header() const { return reinterpret_cast<TVMFFIObject*>(object_); }

 private:
  T* object_ = nullptr;
};

template <typename T>
void DeleteObject(void* self, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) static_cast<T*>(self)->~T();
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) std::free(self);
}

/// Creates a T, followed by `tail_bytes` of uninitialised memory, with one reference.
/// \throws std::bad_alloc
template <typename T, typename... Args>
ObjectPtr<T> MakeObject(int32_t type_index, size_t tail_bytes, Args&&... args) {
  static_assert(std::is_standard_layout_v<T> && alignof(T) <= alignof(std::max_align_t));
  static_assert(offsetof(T, header) == 0);
  void* memory = std::malloc(sizeof(T) + tail_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  T* object = new (memory) T{{}, std::forward<Args>(args)...};
  object->header.combined_ref_count = kUniqueCount;
  object->header.type_index = type_index;
  object->header.__padding = 0;
  object->header.deleter = DeleteObject<T>;
  return ObjectPtr<T>::Steal(object);
}

}  // namespace graphffi::runtime

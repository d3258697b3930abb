// SPDX-License-Identifier: Apache-2.0
// Making objects: malloc by the library that makes them, free by their own deleter.
#pragma once

#include <tvm/ffi/object.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// The bytes of count elements behind a head. \throws std::bad_alloc if no memory is that large
inline size_t ArrayBytes(size_t head_bytes, size_t count, size_t element_bytes) {
  if (count > (PTRDIFF_MAX - head_bytes) / element_bytes) throw std::bad_alloc();
  return head_bytes + count * element_bytes;
}

inline void* AllocateObject(size_t size, size_t alignment) {
  constexpr size_t kMallocAlignment = alignof(std::max_align_t);
  void* space = alignment <= kMallocAlignment
                    ? std::malloc(size)
                    : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (space == nullptr) throw std::bad_alloc();
  return space;
}

template <typename T>
struct ObjectDeleter {
  static void Delete(void* self, int flags) {
    T* object = static_cast<T*>(static_cast<Object*>(self));
    if ((flags & kTVMFFIObjectDeleterFlagBitMaskStrong) != 0) object->T::~T();
    if ((flags & kTVMFFIObjectDeleterFlagBitMaskWeak) != 0) std::free(object);
  }
};

template <typename T, typename... Args>
ObjectPtr<T> MakeObjectOfSize(size_t size, size_t alignment, Args&&... args) {
  static_assert(std::is_base_of_v<Object, T>, "make_object makes objects");
  void* space = AllocateObject(size, alignment);
  T* object;
  try {
    object = new (space) T(std::forward<Args>(args)...);
  } catch (...) {
    std::free(space);
    throw;
  }
  TVMFFIObject* header = ObjectUnsafe::GetHeader(object);
  header->combined_ref_count = kUniqueCount;
  header->type_index = T::RuntimeTypeIndex();
  header->__padding = 0;
  header->deleter = ObjectDeleter<T>::Delete;
  return ObjectUnsafe::ObjectPtrFromOwned<T>(static_cast<Object*>(object));
}

}  // namespace detail

/// A new T with one reference.
template <typename T, typename... Args>
ObjectPtr<T> make_object(Args&&... args) {
  return detail::MakeObjectOfSize<T>(sizeof(T), alignof(T), std::forward<Args>(args)...);
}

/// A new T with one reference, as a pointer that is never null.
template <typename T, typename... Args>
Arc<T> make_arc(Args&&... args) {
  return detail::ObjectUnsafe::ArcFromObjectPtr(make_object<T>(std::forward<Args>(args)...));
}

/// A new ArrayType followed by room for num_elems ElemType, which ArrayType's constructor and
/// destructor look after.
template <typename ArrayType, typename ElemType, typename... Args>
ObjectPtr<ArrayType> make_inplace_array_object(size_t num_elems, Args&&... args) {
  static_assert(sizeof(ArrayType) % alignof(ElemType) == 0,
                "elements start right behind the object");
  constexpr size_t kAlignment =
      alignof(ArrayType) > alignof(ElemType) ? alignof(ArrayType) : alignof(ElemType);
  return detail::MakeObjectOfSize<ArrayType>(
      detail::ArrayBytes(sizeof(ArrayType), num_elems, sizeof(ElemType)), kAlignment,
      std::forward<Args>(args)...);
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

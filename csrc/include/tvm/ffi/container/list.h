// SPDX-License-Identifier: Apache-2.0
// List<T>: a sequence that all its holders share and change.
#pragma once

#include <tvm/ffi/container/seq_base.h>
#include <tvm/ffi/optional.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The object behind List: its buffer is always outside the object, so that it can grow.
class ListObj : public SeqBaseObj {
 public:
  static constexpr int32_t _type_index = kTVMFFIList;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIList, ListObj, Object);

  static ObjectPtr<ListObj> Empty(size_t capacity = 4) {
    auto list = make_object<ListObj>();
    list->MoveToBuffer(std::max<size_t>(capacity, 1));
    return list;
  }
  /// count times the same value.
  static ObjectPtr<ListObj> CreateRepeated(int64_t count, const Any& value) {
    ObjectPtr<ListObj> list = Empty(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) list->Append(value);
    return list;
  }
};

/// Elements of type T; with T = Any of any type.
template <typename T>
class List : public detail::SeqRef<List<T>, ListObj, T> {
  using Base = detail::SeqRef<List<T>, ListObj, T>;

 public:
  List() : Base(ListObj::Empty()) {}
  explicit List(UnsafeInit tag) : Base(tag) {}
  explicit List(ObjectPtr<Object> data) : Base(std::move(data)) {}
  List(std::initializer_list<T> elements)  // NOLINT(runtime/explicit)
      : List(elements.begin(), elements.end()) {}
  List(const std::vector<T>& elements)  // NOLINT(runtime/explicit)
      : List(elements.begin(), elements.end()) {}
  explicit List(size_t count, const T& value)
      : Base(ListObj::CreateRepeated(static_cast<int64_t>(count), Any(value))) {}
  template <typename Iter, typename = std::enable_if_t<detail::IsIterator<Iter>::value>>
  List(Iter first, Iter last) : List() {
    this->reserve(std::distance(first, last));
    for (; first != last; ++first) this->push_back(T(*first));
  }
  /// A list of a narrower type is one of a wider type: the same object.
  template <typename U, typename = std::enable_if_t<type_subsumes_v<T, U>>>
  List(List<U> other)  // NOLINT(runtime/explicit)
      : Base(detail::ObjectUnsafe::ObjectPtrFromObjectRef<Object>(std::move(other))) {}

  ListObj* GetListObj() const { return this->Obj(); }

 private:
  template <typename, typename, typename>
  friend class detail::SeqRef;

  ListObj* Mutable(size_t capacity) {
    if (this->data_ == nullptr) this->data_ = ListObj::Empty(capacity);
    ListObj* list = this->Obj();
    if (list->capacity() < capacity) {
      list->MoveToBuffer(detail::GrownCapacity(list->capacity(), capacity));
    }
    return list;
  }
};

namespace detail {
template <typename T, typename U>
inline constexpr bool type_contains_v<List<T>, List<U>> = type_subsumes_v<T, U>;
}  // namespace detail

template <typename T>
inline constexpr bool use_default_type_traits_v<List<T>> = false;

template <typename T>
struct TypeTraits<List<T>> : detail::SeqTraits<List<T>, T, kTVMFFIList, kTVMFFIArray> {};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

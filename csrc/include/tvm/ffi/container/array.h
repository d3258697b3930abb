// SPDX-License-Identifier: Apache-2.0
// Array<T>: a sequence that is copied when somebody else holds it too.
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

/// The object behind Array and Tuple.
class ArrayObj : public SeqBaseObj {
 public:
  static constexpr int32_t _type_index = kTVMFFIArray;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIArray, ArrayObj, Object);

  /// No elements, with room for capacity of them inside the object.
  static ObjectPtr<ArrayObj> Empty(size_t capacity = 4) {
    auto array = make_inplace_array_object<ArrayObj, Any>(capacity);
    array->data = reinterpret_cast<char*>(array.get()) + sizeof(ArrayObj);
    array->TVMFFISeqCell::capacity = static_cast<int64_t>(capacity);
    return array;
  }
  /// count times the same value.
  static ObjectPtr<ArrayObj> CreateRepeated(int64_t count, const Any& value) {
    ObjectPtr<ArrayObj> array = Empty(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) array->Append(value);
    return array;
  }
  static ObjectPtr<ArrayObj> CopyFrom(size_t capacity, const SeqBaseObj* source) {
    ObjectPtr<ArrayObj> array = Empty(std::max(capacity, source->size()));
    for (const Any& element : *source) array->Append(element);
    return array;
  }
};

/// Elements of type T; with T = Any of any type. Changing a shared array copies it first.
template <typename T>
class Array : public detail::SeqRef<Array<T>, ArrayObj, T> {
  using Base = detail::SeqRef<Array<T>, ArrayObj, T>;

 public:
  Array() : Base(ArrayObj::Empty(0)) {}
  explicit Array(UnsafeInit tag) : Base(tag) {}
  explicit Array(ObjectPtr<Object> data) : Base(std::move(data)) {}
  Array(std::initializer_list<T> elements)  // NOLINT(runtime/explicit)
      : Array(elements.begin(), elements.end()) {}
  Array(const std::vector<T>& elements)  // NOLINT(runtime/explicit)
      : Array(elements.begin(), elements.end()) {}
  explicit Array(size_t count, const T& value)
      : Base(ArrayObj::CreateRepeated(static_cast<int64_t>(count), Any(value))) {}
  template <typename Iter, typename = std::enable_if_t<detail::IsIterator<Iter>::value>>
  Array(Iter first, Iter last) : Array() {
    this->reserve(std::distance(first, last));
    for (; first != last; ++first) this->push_back(T(*first));
  }
  /// An array of a narrower type is one of a wider type: the same object.
  template <typename U, typename = std::enable_if_t<type_subsumes_v<T, U>>>
  Array(Array<U> other)  // NOLINT(runtime/explicit)
      : Base(detail::ObjectUnsafe::ObjectPtrFromObjectRef<Object>(std::move(other))) {}

  ArrayObj* GetArrayObj() const { return this->Obj(); }
  /// The object, copied first if it is shared.
  ArrayObj* CopyOnWrite() { return Mutable(this->size()); }

  /// An array of the results of f. The same array if f gives every element back.
  template <typename F, typename U = std::invoke_result_t<F, T>>
  Array<U> Map(F f) const {
    Array<U> result;
    result.reserve(static_cast<int64_t>(this->size()));
    bool same = type_subsumes_v<U, T>;
    for (size_t i = 0; i < this->size(); ++i) {
      const Any& before = this->Obj()->begin()[i];
      result.push_back(f(detail::ElementAs<T>(before)));
      same = same && result.GetArrayObj()->back().same_as(before);
    }
    if constexpr (type_subsumes_v<U, T>) {
      if (same) return *this;
    }
    return result;
  }
  /// Replaces each element by what f makes of it: in place if nobody else holds the array, moving
  /// the elements.
  template <typename F>
  void MutateByApply(F f) {
    if (this->data_ == nullptr) return;
    if (!this->unique()) {
      *this = Map(std::move(f));
      return;
    }
    for (Any* element = this->Obj()->MutableBegin(); element != this->Obj()->MutableEnd();
         ++element) {
      *element = f(detail::AnyUnsafe::MoveFromAnyAfterCheck<T>(std::move(*element)));
    }
  }

 private:
  template <typename, typename, typename>
  friend class detail::SeqRef;

  ArrayObj* Mutable(size_t capacity) {
    ArrayObj* array = this->Obj();
    if (array == nullptr) {
      this->data_ = ArrayObj::Empty(capacity);
    } else if (!this->unique()) {
      this->data_ = ArrayObj::CopyFrom(capacity, array);
    } else if (array->capacity() < capacity) {
      ObjectPtr<ArrayObj> grown =
          ArrayObj::Empty(detail::GrownCapacity(array->capacity(), capacity));
      for (size_t i = 0; i < array->size(); ++i) grown->Append(std::move(array->MutableBegin()[i]));
      this->data_ = std::move(grown);
    }
    return this->Obj();
  }
};

/// One array of the elements of both.
template <typename T>
Array<T> Concat(Array<T> left, const Array<T>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

namespace detail {
template <typename T, typename U>
inline constexpr bool type_contains_v<Array<T>, Array<U>> = type_subsumes_v<T, U>;
}  // namespace detail

template <typename T>
inline constexpr bool use_default_type_traits_v<Array<T>> = false;

template <typename T>
struct TypeTraits<Array<T>> : detail::SeqTraits<Array<T>, T, kTVMFFIArray, kTVMFFIList> {};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

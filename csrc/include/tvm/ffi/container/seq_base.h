// SPDX-License-Identifier: Apache-2.0
// The object behind Array and List, and the interface that the two share.
#pragma once

#include <tvm/ffi/container/container_detail.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// An array of Any: inside the object, or in a buffer that data_deleter frees.
class SeqBaseObj : public Object, public TVMFFISeqCell {
 public:
  SeqBaseObj() : TVMFFISeqCell{nullptr, 0, 0, nullptr} {}
  ~SeqBaseObj() {
    DestroyFrom(0);
    FreeBuffer();
  }

  size_t size() const { return static_cast<size_t>(TVMFFISeqCell::size); }
  size_t capacity() const { return static_cast<size_t>(TVMFFISeqCell::capacity); }
  bool empty() const { return size() == 0; }
  const Any* begin() const { return static_cast<const Any*>(this->data); }
  const Any* end() const { return begin() + size(); }
  Any* MutableBegin() { return static_cast<Any*>(this->data); }
  Any* MutableEnd() { return MutableBegin() + size(); }
  /// \throws Error(IndexError)
  const Any& at(int64_t index) const { return begin()[CheckIndex(index)]; }
  const Any& operator[](int64_t index) const { return at(index); }
  const Any& front() const { return RequireElement("front()")[0]; }
  const Any& back() const { return RequireElement("back()")[size() - 1]; }
  /// \throws Error(IndexError)
  void SetItem(int64_t index, Any value) { MutableBegin()[CheckIndex(index)] = std::move(value); }
  void clear() { Truncate(0); }

  int64_t CheckIndex(int64_t index) const {
    if (TVM_FFI_PREDICT_FALSE(index < 0 || index >= TVMFFISeqCell::size)) {
      TVM_FFI_THROW(IndexError) << "Index " << index << " out of bounds " << size();
    }
    return index;
  }
  const Any* RequireElement(const char* operation) const {
    if (TVM_FFI_PREDICT_FALSE(empty())) {
      TVM_FFI_THROW(IndexError) << operation << " on empty sequence";
    }
    return begin();
  }

  /// \throws Error(IndexError) if empty
  void pop_back() {
    RequireElement("pop_back");
    const Any last = std::move(MutableBegin()[--TVMFFISeqCell::size]);  // dies at the end
  }
  /// \throws Error(IndexError)
  void erase(int64_t index) {
    CheckIndex(index);
    Erase(static_cast<size_t>(index), static_cast<size_t>(index) + 1);
  }
  /// \throws Error(IndexError) unless 0 <= first <= last <= size(), or they are equal
  void erase(int64_t first, int64_t last) {
    if (first == last) return;
    if (first < 0 || first > last || last > TVMFFISeqCell::size) {
      TVM_FFI_THROW(IndexError) << "cannot erase [" << first << ", " << last << ") of " << size();
    }
    Erase(static_cast<size_t>(first), static_cast<size_t>(last));
  }

  // The following need room: capacity is not checked.

  /// \throws Error(IndexError)
  void insert(int64_t index, Any value) {
    if (index != TVMFFISeqCell::size) CheckIndex(index);
    OpenGap(static_cast<size_t>(index), 1);
    MutableBegin()[index] = std::move(value);
  }
  /// \throws Error(ValueError) for a negative size
  void resize(int64_t new_size) {
    if (new_size < 0) TVM_FFI_THROW(ValueError) << "cannot resize to " << new_size;
    if (new_size < TVMFFISeqCell::size) Truncate(static_cast<size_t>(new_size));
    while (TVMFFISeqCell::size < new_size) Append(Any());
  }
  void Append(Any value) {
    new (MutableEnd()) Any(std::move(value));
    ++TVMFFISeqCell::size;
  }
  /// Opens a gap of count None values before index.
  void OpenGap(size_t index, size_t count) {
    size_t old_size = size();
    for (size_t i = 0; i < count; ++i) Append(Any());
    std::move_backward(MutableBegin() + index, MutableBegin() + old_size, MutableEnd());
  }
  /// What goes dies when the sequence is whole again: its end may call code that uses it.
  void Erase(size_t first, size_t last) {
    const std::vector<Any> erased(std::make_move_iterator(MutableBegin() + first),
                                  std::make_move_iterator(MutableBegin() + last));
    std::move(MutableBegin() + last, MutableEnd(), MutableBegin() + first);
    DestroyFrom(size() - (last - first));
    TVMFFISeqCell::size -= static_cast<int64_t>(last - first);
  }
  void Truncate(size_t new_size) { Erase(new_size, size()); }

  /// Moves the elements into a larger buffer of their own.
  void MoveToBuffer(size_t new_capacity) {
    Any* buffer = static_cast<Any*>(
        detail::AllocateObject(detail::ArrayBytes(0, new_capacity, sizeof(Any)), alignof(Any)));
    size_t count = size();
    for (size_t i = 0; i < count; ++i) new (buffer + i) Any(std::move(MutableBegin()[i]));
    FreeBuffer();
    this->data = buffer;
    TVMFFISeqCell::capacity = static_cast<int64_t>(new_capacity);
    this->data_deleter = std::free;
  }

 private:
  void DestroyFrom(size_t first) {
    for (size_t i = first; i < size(); ++i) MutableBegin()[i].~Any();
  }
  void FreeBuffer() {
    if (this->data_deleter != nullptr) this->data_deleter(this->data);
  }
};

static_assert(sizeof(SeqBaseObj) == sizeof(Object) + sizeof(TVMFFISeqCell));

namespace detail {

inline size_t GrownCapacity(size_t current, size_t needed) {
  return std::max(needed, std::max<size_t>(4, 2 * current));
}

/// The interface of Array and List. Derived has
///   ObjType* Mutable(size_t capacity)   an object that may be changed and has room for capacity
///   elements
template <typename Derived, typename ObjType, typename T>
class SeqRef : public ObjectRef {
  static_assert(storage_enabled_v<T>, "this type cannot be an element");

 public:
  using value_type = T;
  using iterator = ElementIterator<T>;
  using const_iterator = iterator;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using size_type = size_t;
  using difference_type = std::ptrdiff_t;

  size_t size() const { return data_ == nullptr ? 0 : Obj()->size(); }
  size_t capacity() const { return data_ == nullptr ? 0 : Obj()->capacity(); }
  bool empty() const { return size() == 0; }
  iterator begin() const { return iterator(data_ == nullptr ? nullptr : Obj()->begin()); }
  iterator end() const { return begin() + static_cast<std::ptrdiff_t>(size()); }
  reverse_iterator rbegin() const { return reverse_iterator(end()); }
  reverse_iterator rend() const { return reverse_iterator(begin()); }

  /// \throws Error(IndexError)
  const T operator[](int64_t index) const { return ElementAs<T>(Checked()->at(index)); }
  T at(int64_t index) const { return (*this)[index]; }
  T front() const { return ElementAs<T>(Checked()->front()); }
  T back() const { return ElementAs<T>(Checked()->back()); }

  /// \throws Error(IndexError)
  void Set(int64_t index, T value) {
    Checked()->CheckIndex(index);
    Self()->Mutable(size())->SetItem(index, Any(std::move(value)));
  }
  void push_back(const T& value) { Self()->Mutable(size() + 1)->Append(Any(value)); }
  void push_back(T&& value) { Self()->Mutable(size() + 1)->Append(Any(std::move(value))); }
  template <typename... Args>
  void emplace_back(Args&&... args) {
    push_back(T(std::forward<Args>(args)...));
  }
  void insert(iterator position, const T& value) {
    auto index = static_cast<int64_t>(IndexOf(position));
    Any owned(value);  // value may be an element of this container
    Self()->Mutable(size() + 1)->insert(index, std::move(owned));
  }
  template <typename Iter, typename = std::enable_if_t<IsIterator<Iter>::value>>
  void insert(iterator position, Iter first, Iter last) {
    size_t index = IndexOf(position);
    std::vector<Any> values;  // first and last may point into this container
    for (; first != last; ++first) values.emplace_back(T(*first));
    ObjType* object = Self()->Mutable(size() + values.size());
    object->OpenGap(index, values.size());
    std::move(values.begin(), values.end(), object->MutableBegin() + index);
  }
  /// \throws Error(IndexError) if empty
  void pop_back() {
    Checked()->RequireElement("pop_back");
    Self()->Mutable(size())->pop_back();
  }
  /// \throws Error(IndexError) if there is no such element
  void erase(iterator position) {
    Checked()->CheckIndex(position - begin());
    erase(position, position + 1);
  }
  void erase(iterator first, iterator last) {
    auto from = static_cast<int64_t>(IndexOf(first));
    auto to = static_cast<int64_t>(IndexOf(last));
    if (from != to) Self()->Mutable(size())->erase(from, to);
  }
  void resize(int64_t new_size) {
    if (new_size < 0) TVM_FFI_THROW(ValueError) << "cannot resize to " << new_size;
    auto target = static_cast<size_t>(new_size);
    ObjType* object = Self()->Mutable(std::max(target, size()));
    if (object->size() > target) object->Truncate(target);
    if constexpr (std::is_default_constructible_v<T>) {
      while (object->size() < target) object->Append(Any(T()));
    } else {
      while (object->size() < target) object->Append(Any());
    }
  }
  void reserve(int64_t new_capacity) {
    if (new_capacity > static_cast<int64_t>(capacity())) {
      Self()->Mutable(static_cast<size_t>(new_capacity));
    }
  }
  void clear() { Self()->Mutable(0)->clear(); }
  template <typename Iter>
  void assign(Iter first, Iter last) {
    *Self() = Derived(first, last);
  }

  using ContainerType = ObjType;
  static constexpr bool _type_is_nullable = false;
  static constexpr bool _type_container_is_exact = false;
  const ObjType* operator->() const { return Obj(); }
  const ObjType* get() const { return Obj(); }

 protected:
  SeqRef() = default;
  explicit SeqRef(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}
  explicit SeqRef(UnsafeInit tag) : ObjectRef(tag) {}

  ObjType* Obj() const { return static_cast<ObjType*>(data_.get()); }
  /// An empty one for a reference that was moved away.
  const SeqBaseObj* Checked() const {
    static const auto* empty = new SeqBaseObj;
    return data_ == nullptr ? empty : static_cast<const SeqBaseObj*>(Obj());
  }

 private:
  Derived* Self() { return static_cast<Derived*>(this); }
  size_t IndexOf(iterator position) const {
    std::ptrdiff_t index = position - begin();
    if (index < 0 || static_cast<size_t>(index) > size()) {
      TVM_FFI_THROW(IndexError) << "Index " << index << " out of bounds " << size();
    }
    return static_cast<size_t>(index);
  }
};

/// Traits of Array and List. kIndex is their own kind, kOtherIndex the other's: it is converted,
/// element by element.
template <typename Ref, typename T, int32_t kIndex, int32_t kOtherIndex>
struct SeqTraits : ObjectRefTypeTraitsBase<Ref> {
  static constexpr int32_t field_static_type_index = kIndex;

  static bool CheckAnyStrict(const TVMFFIAny* source) {
    if (source->type_index != kIndex) return false;
    return ElementsMatch(source);
  }
  static std::optional<Ref> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index != kIndex && source->type_index != kOtherIndex) return std::nullopt;
    if (source->type_index == kIndex && ElementsMatch(source)) {
      return ObjectRefTypeTraitsBase<Ref>::CopyFromAnyViewAfterCheck(source);
    }
    const TVMFFISeqCell* items = TVMFFISeqGetCellPtr(source->v_obj);
    Ref converted;
    converted.reserve(items->size);
    for (int64_t i = 0; i < items->size; ++i) {
      std::optional<T> element = TypeTraits<T>::TryCastFromAnyView(Item(items, i));
      if (!element.has_value()) return std::nullopt;
      converted.push_back(*std::move(element));
    }
    return converted;
  }
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    if (source->type_index != kIndex && source->type_index != kOtherIndex) {
      return TypeTraitsBase::GetMismatchTypeInfo(source);
    }
    const TVMFFISeqCell* items = TVMFFISeqGetCellPtr(source->v_obj);
    const std::string name = kName;
    for (int64_t i = 0; i < items->size; ++i) {
      if (!TypeTraits<T>::TryCastFromAnyView(Item(items, i)).has_value()) {
        return name + "[index " + std::to_string(i) + ": " +
               TypeTraits<T>::GetMismatchTypeInfo(Item(items, i)) + "]";
      }
    }
    return name;
  }
  static std::string TypeStr() { return TypeList<T>(kName); }
  static std::string TypeSchema() {
    return detail::SchemaOf<T>(kIndex == kTVMFFIArray ? "ffi.Array" : "ffi.List");
  }

 private:
  static constexpr const char* kName = kIndex == kTVMFFIArray ? "Array" : "List";
  static const TVMFFIAny* Item(const TVMFFISeqCell* items, int64_t index) {
    return static_cast<const TVMFFIAny*>(items->data) + index;
  }
  static bool ElementsMatch(const TVMFFIAny* source) {
    if constexpr (!std::is_same_v<T, Any>) {
      const TVMFFISeqCell* items = TVMFFISeqGetCellPtr(source->v_obj);
      for (int64_t i = 0; i < items->size; ++i) {
        if (!TypeTraits<T>::CheckAnyStrict(Item(items, i))) return false;
      }
    }
    return true;
  }
};

}  // namespace detail
}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// The interface that Map and Dict share, and their conversions.
#pragma once

#include <tvm/ffi/container/container_detail.h>
#include <tvm/ffi/container/map_base.h>
#include <tvm/ffi/optional.h>

#include <string>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// Derived has `ObjType* Mutable()`: an object that may be changed.
template <typename Derived, typename ObjType, typename K, typename V>
class MapRef : public ObjectRef {
  static_assert(all_storage_enabled_v<K, V>, "this type cannot be a key or value");

 public:
  using key_type = K;
  using mapped_type = V;
  using value_type = std::pair<K, V>;

  class iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using difference_type = int64_t;
    // const: callers write `for (auto& [key, value] : map)`.
    using value_type = const std::pair<K, V>;
    using pointer = value_type*;
    using reference = value_type;

    iterator() = default;
    explicit iterator(MapBaseObj::iterator position) : position_(position) {}
    value_type operator*() const {
      return {ElementAs<K>(position_->first), ElementAs<V>(position_->second)};
    }
    /// The pair behind `it->first` lives as long as the full expression.
    struct Arrow {
      value_type pair;
      value_type* operator->() { return &pair; }
    };
    Arrow operator->() const { return Arrow{**this}; }
    iterator& operator++() {
      ++position_;
      return *this;
    }
    iterator operator++(int) { return iterator(position_++); }
    iterator& operator--() {
      --position_;
      return *this;
    }
    iterator operator--(int) { return iterator(position_--); }
    bool operator==(const iterator& other) const { return position_ == other.position_; }
    bool operator!=(const iterator& other) const { return position_ != other.position_; }

   private:
    MapBaseObj::iterator position_;
  };
  using const_iterator = iterator;

  size_t size() const { return data_ == nullptr ? 0 : Obj()->size(); }
  bool empty() const { return size() == 0; }
  size_t count(const K& key) const { return data_ == nullptr ? 0 : Obj()->count(Any(key)); }
  iterator begin() const { return iterator(Checked()->begin()); }
  iterator end() const { return iterator(Checked()->end()); }
  iterator find(const K& key) const { return iterator(Checked()->find(Any(key))); }
  /// \throws Error(KeyError)
  V at(const K& key) const { return ElementAs<V>(Checked()->at(Any(key))); }
  const V operator[](const K& key) const { return at(key); }
  /// The value, or nothing if there is no such key.
  std::optional<V> Get(const K& key) const {
    auto position = Checked()->find(Any(key));
    if (position == Checked()->end()) return std::nullopt;
    return ElementAs<V>(position->second);
  }

  void Set(const K& key, const V& value) {
    Self()->Mutable()->InsertOrAssign(Any(key), Any(value));
  }
  void erase(const K& key) {
    if (count(key) != 0) Self()->Mutable()->erase(Any(key));
  }
  void clear() {
    if (!empty()) Self()->Mutable()->clear();
  }

  using ContainerType = ObjType;
  static constexpr bool _type_is_nullable = false;
  static constexpr bool _type_container_is_exact = false;
  const ObjType* operator->() const { return Obj(); }
  const ObjType* get() const { return Obj(); }

 protected:
  MapRef() : ObjectRef(MapBaseObj::Empty<ObjType>()) {}
  explicit MapRef(UnsafeInit tag) : ObjectRef(tag) {}
  explicit MapRef(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}

  ObjType* Obj() const { return static_cast<ObjType*>(data_.get()); }
  template <typename Iter>
  void InsertRange(Iter first, Iter last) {
    for (; first != last; ++first) {
      Obj()->InsertOrAssign(Any(K(first->first)), Any(V(first->second)));
    }
  }

 private:
  Derived* Self() { return static_cast<Derived*>(this); }
  /// An empty one for a reference that was moved away.
  const MapBaseObj* Checked() const {
    static const auto* empty = new MapBaseObj;
    return data_ == nullptr ? empty : static_cast<const MapBaseObj*>(Obj());
  }
};

/// Traits of Map and Dict. kIndex is their own kind, kOtherIndex the other's: it is converted, pair
/// by pair.
template <typename Ref, typename K, typename V, int32_t kIndex, int32_t kOtherIndex>
struct MapTraits : ObjectRefTypeTraitsBase<Ref> {
  static constexpr int32_t field_static_type_index = kIndex;

  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kIndex && PairsMatch(source);
  }
  static std::optional<Ref> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index != kIndex && source->type_index != kOtherIndex) return std::nullopt;
    if (source->type_index == kIndex && PairsMatch(source)) {
      return ObjectRefTypeTraitsBase<Ref>::CopyFromAnyViewAfterCheck(source);
    }
    Ref converted;
    for (const auto& [key, value] : *MapOf(source)) {
      std::optional<K> new_key = key.template try_cast<K>();
      std::optional<V> new_value = value.template try_cast<V>();
      if (!new_key.has_value() || !new_value.has_value()) return std::nullopt;
      converted.Set(*std::move(new_key), *std::move(new_value));
    }
    return converted;
  }
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    if (source->type_index != kIndex && source->type_index != kOtherIndex) {
      return TypeTraitsBase::GetMismatchTypeInfo(source);
    }
    const std::string name = kName;
    for (const auto& [key, value] : *MapOf(source)) {
      if (!key.template try_cast<K>().has_value()) {
        return name + "[some key is " + AnyUnsafe::GetMismatchTypeInfo<K>(key) + ", V]";
      }
      if (!value.template try_cast<V>().has_value()) {
        return name + "[K, some value is " + AnyUnsafe::GetMismatchTypeInfo<V>(value) + "]";
      }
    }
    return name;
  }
  static std::string TypeStr() { return TypeList<K, V>(kName); }
  static std::string TypeSchema() {
    return detail::SchemaOf<K, V>(kIndex == kTVMFFIMap ? "ffi.Map" : "ffi.Dict");
  }

 private:
  static constexpr const char* kName = kIndex == kTVMFFIMap ? "Map" : "Dict";
  static const MapBaseObj* MapOf(const TVMFFIAny* source) {
    return reinterpret_cast<const MapBaseObj*>(source->v_obj);
  }
  static bool PairsMatch(const TVMFFIAny* source) {
    if constexpr (!std::is_same_v<K, Any> || !std::is_same_v<V, Any>) {
      for (const auto& [key, value] : *MapOf(source)) {
        if (!AnyUnsafe::CheckAnyStrict<K>(key) || !AnyUnsafe::CheckAnyStrict<V>(value))
          return false;
      }
    }
    return true;
  }
};

}  // namespace detail
}  // namespace graphffi_v1
}  // namespace tvm::ffi

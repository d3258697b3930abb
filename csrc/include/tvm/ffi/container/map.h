// SPDX-License-Identifier: Apache-2.0
// Map<K, V>: a map that is copied when somebody else holds it too.
#pragma once

#include <tvm/ffi/container/map_ref.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The object behind Map.
class MapObj : public MapBaseObj {
 public:
  static constexpr int32_t _type_index = kTVMFFIMap;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIMap, MapObj, Object);
};

/// Keys and values in insertion order. Changing a shared map copies it first.
template <typename K, typename V>
class Map : public detail::MapRef<Map<K, V>, MapObj, K, V> {
  using Base = detail::MapRef<Map<K, V>, MapObj, K, V>;

 public:
  Map() = default;
  explicit Map(UnsafeInit tag) : Base(tag) {}
  explicit Map(ObjectPtr<Object> data) : Base(std::move(data)) {}
  Map(std::initializer_list<std::pair<K, V>> pairs) {  // NOLINT(runtime/explicit)
    this->InsertRange(pairs.begin(), pairs.end());
  }
  template <typename Iter>
  Map(Iter first, Iter last) {
    this->InsertRange(first, last);
  }
  template <typename Hash, typename Equal>
  Map(const std::unordered_map<K, V, Hash, Equal>& pairs) {  // NOLINT(runtime/explicit)
    this->InsertRange(pairs.begin(), pairs.end());
  }
  template <typename K2, typename V2,
            typename = std::enable_if_t<type_subsumes_v<K, K2> && type_subsumes_v<V, V2>>>
  Map(Map<K2, V2> other)  // NOLINT(runtime/explicit)
      : Base(detail::ObjectUnsafe::ObjectPtrFromObjectRef<Object>(std::move(other))) {}

  /// The object, copied first if it is shared.
  MapObj* CopyOnWrite() { return Mutable(); }

 private:
  template <typename, typename, typename, typename>
  friend class detail::MapRef;

  MapObj* Mutable() {
    if (this->data_ == nullptr) {
      this->data_ = MapBaseObj::Empty<MapObj>();
    } else if (!this->unique()) {
      this->data_ = MapBaseObj::CopyFrom<MapObj>(this->Obj());
    }
    return this->Obj();
  }
};

/// The pairs of both; those of right where they have a key in common.
template <typename K, typename V>
Map<K, V> Merge(Map<K, V> left, const Map<K, V>& right) {
  for (const auto& [key, value] : right) left.Set(key, value);
  return left;
}

namespace detail {
template <typename K, typename V, typename K2, typename V2>
inline constexpr bool type_contains_v<Map<K, V>, Map<K2, V2>> =
    type_subsumes_v<K, K2> && type_subsumes_v<V, V2>;
}  // namespace detail

template <typename K, typename V>
inline constexpr bool use_default_type_traits_v<Map<K, V>> = false;

template <typename K, typename V>
struct TypeTraits<Map<K, V>> : detail::MapTraits<Map<K, V>, K, V, kTVMFFIMap, kTVMFFIDict> {};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

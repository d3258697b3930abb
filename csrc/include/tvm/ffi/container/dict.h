// SPDX-License-Identifier: Apache-2.0
// Dict<K, V>: a map that all its holders share and change.
#pragma once

#include <tvm/ffi/container/map_ref.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The object behind Dict.
class DictObj : public MapBaseObj {
 public:
  static constexpr int32_t _type_index = kTVMFFIDict;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIDict, DictObj, Object);
};

/// Keys and values in insertion order. Changes are seen by everybody who holds it.
template <typename K, typename V>
class Dict : public detail::MapRef<Dict<K, V>, DictObj, K, V> {
  using Base = detail::MapRef<Dict<K, V>, DictObj, K, V>;

 public:
  Dict() = default;
  explicit Dict(UnsafeInit tag) : Base(tag) {}
  explicit Dict(ObjectPtr<Object> data) : Base(std::move(data)) {}
  Dict(std::initializer_list<std::pair<K, V>> pairs) {  // NOLINT(runtime/explicit)
    this->InsertRange(pairs.begin(), pairs.end());
  }
  template <typename Iter>
  Dict(Iter first, Iter last) {
    this->InsertRange(first, last);
  }
  template <typename Hash, typename Equal>
  Dict(const std::unordered_map<K, V, Hash, Equal>& pairs) {  // NOLINT(runtime/explicit)
    this->InsertRange(pairs.begin(), pairs.end());
  }
  template <typename K2, typename V2,
            typename = std::enable_if_t<type_subsumes_v<K, K2> && type_subsumes_v<V, V2>>>
  Dict(Dict<K2, V2> other)  // NOLINT(runtime/explicit)
      : Base(detail::ObjectUnsafe::ObjectPtrFromObjectRef<Object>(std::move(other))) {}

 private:
  template <typename, typename, typename, typename>
  friend class detail::MapRef;

  DictObj* Mutable() {
    if (this->data_ == nullptr) this->data_ = MapBaseObj::Empty<DictObj>();
    return this->Obj();
  }
};

namespace detail {
template <typename K, typename V, typename K2, typename V2>
inline constexpr bool type_contains_v<Dict<K, V>, Dict<K2, V2>> =
    type_subsumes_v<K, K2> && type_subsumes_v<V, V2>;
}  // namespace detail

template <typename K, typename V>
inline constexpr bool use_default_type_traits_v<Dict<K, V>> = false;

template <typename K, typename V>
struct TypeTraits<Dict<K, V>> : detail::MapTraits<Dict<K, V>, K, V, kTVMFFIDict, kTVMFFIMap> {};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

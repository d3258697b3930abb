// SPDX-License-Identifier: Apache-2.0
// Parameters and results of standard types: vector, array, tuple, optional, variant, map,
// unordered_map, function. They are copied at the boundary, element by element.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/function.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// The base of the traits of standard types: a value that crosses the boundary is converted into
/// one of Storage's type.
template <typename Self, typename Storage>
struct STLTraitsBase : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  /// A view cannot own the converted container: it is kept alive by the value itself, which a call
  /// moves in.
  static void MoveToAny(Self value, TVMFFIAny* out) {
    TypeTraits<Storage>::MoveToAny(TypeTraits<Self>::ToStorage(std::move(value)), out);
  }
  /// Only for results: as an argument, wrap the value in the container type, e.g.
  /// Array<int>(v.begin(), v.end()).
  static void CopyToAnyView(const Self& value, TVMFFIAny* out) = delete;
};

inline const TVMFFISeqCell* OptSequence(const TVMFFIAny* source) {
  if (source->type_index != kTVMFFIArray && source->type_index != kTVMFFIList) return nullptr;
  return TVMFFISeqGetCellPtr(source->v_obj);
}
inline const MapBaseObj* OptMap(const TVMFFIAny* source) {
  if (source->type_index != kTVMFFIMap && source->type_index != kTVMFFIDict) return nullptr;
  return reinterpret_cast<const MapBaseObj*>(source->v_obj);
}
inline const TVMFFIAny* ElementAt(const TVMFFISeqCell* sequence, int64_t index) {
  return static_cast<const TVMFFIAny*>(sequence->data) + index;
}

/// Any elements as an Array<Any>.
template <typename Iter>
Array<Any> ArrayOf(Iter first, Iter last) {
  Array<Any> array;
  array.reserve(std::distance(first, last));
  for (; first != last; ++first) array.push_back(Any(*first));
  return array;
}

}  // namespace detail

template <typename T>
struct TypeTraits<std::vector<T>> : detail::STLTraitsBase<std::vector<T>, Array<Any>> {
  using Self = std::vector<T>;
  static Array<Any> ToStorage(Self value) { return detail::ArrayOf(value.begin(), value.end()); }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    const TVMFFISeqCell* sequence = detail::OptSequence(source);
    if (sequence == nullptr) return std::nullopt;
    Self result;
    result.reserve(static_cast<size_t>(sequence->size));
    for (int64_t i = 0; i < sequence->size; ++i) {
      auto element = TypeTraits<T>::TryCastFromAnyView(detail::ElementAt(sequence, i));
      if (!element.has_value()) return std::nullopt;
      result.push_back(*std::move(element));
    }
    return result;
  }
  static std::string TypeStr() { return detail::TypeList<T>("std::vector"); }
  static std::string TypeSchema() { return detail::SchemaOf<T>("std::vector"); }
};

template <typename T, size_t N>
struct TypeTraits<std::array<T, N>> : detail::STLTraitsBase<std::array<T, N>, Array<Any>> {
  using Self = std::array<T, N>;
  static Array<Any> ToStorage(Self value) { return detail::ArrayOf(value.begin(), value.end()); }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    const TVMFFISeqCell* sequence = detail::OptSequence(source);
    if (sequence == nullptr || sequence->size != static_cast<int64_t>(N)) return std::nullopt;
    Self result;
    for (size_t i = 0; i < N; ++i) {
      auto element =
          TypeTraits<T>::TryCastFromAnyView(detail::ElementAt(sequence, static_cast<int64_t>(i)));
      if (!element.has_value()) return std::nullopt;
      result[i] = *std::move(element);
    }
    return result;
  }
  static std::string TypeStr() {
    return "std::array<" + detail::Type2Str<T>::v() + ", " + std::to_string(N) + ">";
  }
  static std::string TypeSchema() { return detail::SchemaOf<T>("std::array"); }
};

template <typename... T>
struct TypeTraits<std::tuple<T...>> : detail::STLTraitsBase<std::tuple<T...>, Array<Any>> {
  using Self = std::tuple<T...>;
  static Array<Any> ToStorage(Self value) {
    return std::apply([](auto&&... element) { return Array<Any>{Any(std::move(element))...}; },
                      std::move(value));
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    const TVMFFISeqCell* sequence = detail::OptSequence(source);
    if (sequence == nullptr || sequence->size != static_cast<int64_t>(sizeof...(T))) {
      return std::nullopt;
    }
    return Convert(sequence, std::index_sequence_for<T...>());
  }
  static std::string TypeStr() { return detail::TypeList<T...>("std::tuple"); }
  static std::string TypeSchema() { return detail::SchemaOf<T...>("std::tuple"); }

 private:
  template <size_t... Is>
  static std::optional<Self> Convert([[maybe_unused]] const TVMFFISeqCell* sequence,
                                     std::index_sequence<Is...>) {
    std::tuple<std::optional<T>...> elements{TypeTraits<T>::TryCastFromAnyView(
        detail::ElementAt(sequence, static_cast<int64_t>(Is)))...};
    if (!(std::get<Is>(elements).has_value() && ...)) return std::nullopt;
    return Self(*std::move(std::get<Is>(elements))...);
  }
};

template <typename T>
struct TypeTraits<std::optional<T>> : detail::OptionalTraits<std::optional<T>, T> {
  static constexpr bool storage_enabled = false;
  static std::string TypeStr() { return detail::TypeList<T>("std::optional"); }
  static std::string TypeSchema() { return detail::SchemaOf<T>("std::optional"); }
};

template <typename... T>
struct TypeTraits<std::variant<T...>> : TypeTraitsBase {
  using Self = std::variant<T...>;
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(const Self& value, TVMFFIAny* out) {
    std::visit([&](const auto& held) { *out = AnyView(held).CopyToTVMFFIAny(); }, value);
  }
  static void MoveToAny(Self value, TVMFFIAny* out) {
    std::visit(
        [&](auto&& held) { *out = detail::AnyUnsafe::MoveAnyToTVMFFIAny(Any(std::move(held))); },
        std::move(value));
  }
  /// The first type that the value is as it stands, else the first one that it converts to.
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    std::optional<Self> result;
    if (!(TryOne<T, true>(source, &result) || ...)) (TryOne<T, false>(source, &result) || ...);
    return result;
  }
  static std::string TypeStr() { return detail::TypeList<T...>("std::variant"); }
  static std::string TypeSchema() { return detail::SchemaOf<T...>("std::variant"); }

 private:
  template <typename U, bool kStrict>
  static bool TryOne(const TVMFFIAny* source, std::optional<Self>* result) {
    if constexpr (kStrict && detail::kHasStrictCheck<U>) {
      if (!TypeTraits<U>::CheckAnyStrict(source)) return false;
    } else if constexpr (kStrict) {
      return false;
    }
    std::optional<U> value = TypeTraits<U>::TryCastFromAnyView(source);
    if (value.has_value()) result->emplace(*std::move(value));
    return value.has_value();
  }
};

namespace detail {

/// Traits of std::map and std::unordered_map.
template <typename Self, typename K, typename V>
struct STLMapTraits : STLTraitsBase<Self, Map<Any, Any>> {
  static Map<Any, Any> ToStorage(Self value) {
    Map<Any, Any> map;
    for (auto& [key, element] : value) map.Set(Any(key), Any(std::move(element)));
    return map;
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    const MapBaseObj* map = OptMap(source);
    if (map == nullptr) return std::nullopt;
    Self result;
    for (const auto& [key, value] : *map) {
      std::optional<K> new_key = key.template try_cast<K>();
      std::optional<V> new_value = value.template try_cast<V>();
      if (!new_key.has_value() || !new_value.has_value()) return std::nullopt;
      result.emplace(*std::move(new_key), *std::move(new_value));
    }
    return result;
  }
};

}  // namespace detail

template <typename K, typename V>
struct TypeTraits<std::map<K, V>> : detail::STLMapTraits<std::map<K, V>, K, V> {
  static std::string TypeStr() { return detail::TypeList<K, V>("std::map"); }
  static std::string TypeSchema() { return detail::SchemaOf<K, V>("std::map"); }
};

template <typename K, typename V>
struct TypeTraits<std::unordered_map<K, V>> : detail::STLMapTraits<std::unordered_map<K, V>, K, V> {
  static std::string TypeStr() { return detail::TypeList<K, V>("std::unordered_map"); }
  static std::string TypeSchema() { return detail::SchemaOf<K, V>("std::unordered_map"); }
};

template <typename R, typename... Args>
struct TypeTraits<std::function<R(Args...)>> : TypeTraitsBase {
  using Self = std::function<R(Args...)>;
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(const Self& value, TVMFFIAny* out) = delete;
  static void MoveToAny(Self value, TVMFFIAny* out) {
    TypeTraits<Function>::MoveToAny(Function::FromTyped(std::move(value)), out);
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    std::optional<Function> function = TypeTraits<Function>::TryCastFromAnyView(source);
    if (!function.has_value()) return std::nullopt;
    return Self(TypedFunction<R(Args...)>(*std::move(function)));
  }
  static std::string TypeStr() {
    return "std::function<" + detail::FunctionInfo<R(Args...)>::Sig() + ">";
  }
  static std::string TypeSchema() {
    constexpr std::string_view kFunction = "ffi.Function";
    std::string schema = detail::FunctionInfo<R(Args...)>::TypeSchema();
    return schema.replace(schema.find(kFunction), kFunction.size(), "std::function");
  }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

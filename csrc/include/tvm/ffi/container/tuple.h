// SPDX-License-Identifier: Apache-2.0
// Tuple<Types…>: an Array of fixed length, with a type for each element.
#pragma once

#include <tvm/ffi/container/array.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Changing a shared tuple copies it first.
template <typename... Types>
class Tuple : public ObjectRef {
  static_assert(detail::all_storage_enabled_v<Types...>, "this type cannot be an element");

  template <size_t I>
  using Element = std::tuple_element_t<I, std::tuple<Types...>>;
  template <typename... U>
  static constexpr bool kConstructible =
      sizeof...(U) == sizeof...(Types) && (std::is_constructible_v<Types, U> && ...);

 public:
  Tuple() : ObjectRef(Make(Types()...)) {}
  template <typename... U,
            typename = std::enable_if_t<
                (sizeof...(U) > 0) && sizeof...(U) == sizeof...(Types) &&
                !(sizeof...(U) == 1 && (std::is_base_of_v<Tuple, detail::RemoveCVRef<U>> && ...))>,
            typename = std::enable_if_t<kConstructible<U...>>>
  explicit Tuple(U&&... values) : ObjectRef(Make(Types(std::forward<U>(values))...)) {}
  explicit Tuple(UnsafeInit tag) : ObjectRef(tag) {}
  explicit Tuple(ObjectPtr<Object> data) : ObjectRef(std::move(data)) {}
  template <typename... U, typename = std::enable_if_t<sizeof...(U) == sizeof...(Types)>,
            typename = std::enable_if_t<(type_subsumes_v<Types, U> && ...)>>
  Tuple(Tuple<U...> other)  // NOLINT(runtime/explicit)
      : ObjectRef(detail::ObjectUnsafe::ObjectPtrFromObjectRef<Object>(std::move(other))) {}

  template <size_t I>
  Element<I> get() const& {
    return detail::ElementAs<Element<I>>(Obj()->begin()[I]);
  }
  /// Moves the element out if nobody else holds the tuple.
  template <size_t I>
  Element<I> get() && {
    if (!unique()) return std::as_const(*this).template get<I>();
    return detail::AnyUnsafe::MoveFromAnyAfterCheck<Element<I>>(
        std::move(Obj()->MutableBegin()[I]));
  }
  template <size_t I, typename U>
  void Set(U&& value) {
    if (!unique()) data_ = ArrayObj::CopyFrom(sizeof...(Types), Obj());
    Obj()->SetItem(I, Any(Element<I>(std::forward<U>(value))));
  }

  using ContainerType = ArrayObj;
  static constexpr bool _type_is_nullable = false;
  static constexpr bool _type_container_is_exact = false;
  const ArrayObj* operator->() const { return Obj(); }
  const ArrayObj* get() const { return Obj(); }

 private:
  ArrayObj* Obj() const { return static_cast<ArrayObj*>(data_.get()); }
  static ObjectPtr<ArrayObj> Make(Types... values) {
    ObjectPtr<ArrayObj> array = ArrayObj::Empty(sizeof...(Types));
    (array->Append(Any(std::move(values))), ...);
    return array;
  }
};

template <typename... Types>
Tuple(Types...) -> Tuple<std::decay_t<Types>...>;

template <size_t I, typename... Types>
auto get(const Tuple<Types...>& tuple) {
  return tuple.template get<I>();
}
template <size_t I, typename... Types>
auto get(Tuple<Types...>&& tuple) {
  return std::move(tuple).template get<I>();
}

namespace detail {
template <typename T, typename U>
inline constexpr bool kContainsEach = false;
template <typename... T, typename... U>
inline constexpr bool kContainsEach<std::tuple<T...>, std::tuple<U...>> =
    std::conjunction_v<std::bool_constant<type_subsumes_v<T, U>>...>;
template <bool kSameLength, typename T, typename U>
inline constexpr bool kContainsTuple = false;
template <typename T, typename U>
inline constexpr bool kContainsTuple<true, T, U> = kContainsEach<T, U>;
template <typename... T, typename... U>
inline constexpr bool type_contains_v<Tuple<T...>, Tuple<U...>> =
    kContainsTuple<sizeof...(T) == sizeof...(U), std::tuple<T...>, std::tuple<U...>>;
}  // namespace detail

template <typename... Types>
inline constexpr bool use_default_type_traits_v<Tuple<Types...>> = false;

template <typename... Types>
struct TypeTraits<Tuple<Types...>> : ObjectRefTypeTraitsBase<Tuple<Types...>> {
  using Self = Tuple<Types...>;
  using Indices = std::index_sequence_for<Types...>;
  static constexpr int32_t field_static_type_index = kTVMFFIArray;

  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return HasLength(source) && ElementsMatch(Items(source), Indices());
  }
  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    if (!HasLength(source)) return std::nullopt;
    if (ElementsMatch(Items(source), Indices())) {
      return ObjectRefTypeTraitsBase<Self>::CopyFromAnyViewAfterCheck(source);
    }
    return Convert(Items(source), Indices());
  }
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    if (source->type_index != kTVMFFIArray) return TypeTraitsBase::GetMismatchTypeInfo(source);
    if (!HasLength(source)) {
      int64_t length = TVMFFISeqGetCellPtr(source->v_obj)->size;
      return "Array[size=" + std::to_string(length) + "]";
    }
    return FirstMismatch(Items(source), Indices());
  }
  static std::string TypeStr() { return detail::TypeList<Types...>("Tuple"); }
  static std::string TypeSchema() { return detail::SchemaOf<Types...>("Tuple"); }

 private:
  static bool HasLength(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIArray &&
           TVMFFISeqGetCellPtr(source->v_obj)->size == static_cast<int64_t>(sizeof...(Types));
  }
  static const TVMFFIAny* Items(const TVMFFIAny* source) {
    return static_cast<const TVMFFIAny*>(TVMFFISeqGetCellPtr(source->v_obj)->data);
  }
  template <size_t... Is>
  static bool ElementsMatch([[maybe_unused]] const TVMFFIAny* items, std::index_sequence<Is...>) {
    return (TypeTraits<Types>::CheckAnyStrict(items + Is) && ...);
  }
  template <size_t... Is>
  static std::optional<Self> Convert([[maybe_unused]] const TVMFFIAny* items,
                                     std::index_sequence<Is...>) {
    Any values[sizeof...(Is) == 0 ? 1 : sizeof...(Is)];
    if (!(ConvertOne<Types>(items + Is, &values[Is]) && ...)) return std::nullopt;
    return Self(detail::AnyUnsafe::MoveFromAnyAfterCheck<Types>(std::move(values[Is]))...);
  }
  template <typename T>
  static bool ConvertOne(const TVMFFIAny* item, Any* value) {
    std::optional<T> converted = TypeTraits<T>::TryCastFromAnyView(item);
    if (converted.has_value()) *value = *std::move(converted);
    return converted.has_value();
  }
  template <size_t... Is>
  static std::string FirstMismatch([[maybe_unused]] const TVMFFIAny* items,
                                   std::index_sequence<Is...>) {
    std::string text = "Array";
    [[maybe_unused]] auto describe = [&](auto element, size_t index) {
      using T = typename decltype(element)::type;
      if (TypeTraits<T>::TryCastFromAnyView(items + index).has_value()) return false;
      text = "Array[index " + std::to_string(index) + ": " +
             TypeTraits<T>::GetMismatchTypeInfo(items + index) + "]";
      return true;
    };
    (describe(TypeIdentity<Types>(), Is) || ...);
    return text;
  }
  template <typename T>
  struct TypeIdentity {
    using type = T;
  };
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

template <typename... Types>
struct std::tuple_size<tvm::ffi::Tuple<Types...>>
    : std::integral_constant<size_t, sizeof...(Types)> {};
template <size_t I, typename... Types>
struct std::tuple_element<I, tvm::ffi::Tuple<Types...>> {
  using type = std::tuple_element_t<I, std::tuple<Types...>>;
};

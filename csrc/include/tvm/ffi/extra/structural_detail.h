// SPDX-License-Identifier: Apache-2.0
// Parts that structural visitors and mutators share: regions of definitions, hooks of types,
// callbacks that are chosen by their parameter.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/expected.h>
#include <tvm/ffi/extra/visit_error_context.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/type_attr.h>

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// A region of definitions for as long as this lives; inside of a pattern everything is one.
class DefRegionScope {
 public:
  DefRegionScope(TVMFFIDefRegionKind* mode, TVMFFIDefRegionKind kind) : mode_(mode), old_(*mode) {
    if (old_ != kTVMFFIDefRegionKindPattern) *mode = kind;
  }
  ~DefRegionScope() { *mode_ = old_; }
  DefRegionScope(const DefRegionScope&) = delete;
  DefRegionScope& operator=(const DefRegionScope&) = delete;

 private:
  TVMFFIDefRegionKind* const mode_;
  const TVMFFIDefRegionKind old_;
};

/// The region of a field; current where the field opens none.
inline TVMFFIDefRegionKind RegionOf(const TVMFFIFieldInfo* field, TVMFFIDefRegionKind current) {
  if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashDefSimple) != 0) {
    return kTVMFFIDefRegionKindSimple;
  }
  const bool is_pattern = (field->flags & kTVMFFIFieldFlagBitMaskSEqHashDefPattern) != 0;
  return is_pattern ? kTVMFFIDefRegionKindPattern : current;
}

inline int32_t StructuralKindOf(const TVMFFITypeInfo* type) {
  if (type->metadata == nullptr) return kTVMFFISEqHashKindUnsupported;
  return type->metadata->structural_eq_hash_kind;
}

/// The region of the fields of a type's object: a simple definition is of the variable only.
inline TVMFFIDefRegionKind RegionInside(const TVMFFITypeInfo* type, TVMFFIDefRegionKind current) {
  const bool ends =
      current == kTVMFFIDefRegionKindSimple && StructuralKindOf(type) == kTVMFFISEqHashKindFreeVar;
  return ends ? kTVMFFIDefRegionKindNone : current;
}

/// A return code of the ABI.
inline int ReadField(const TVMFFIFieldInfo* field, const Object* object, Any* value) {
  void* address = reinterpret_cast<char*>(ObjectUnsafe::GetHeader(object)) + field->offset;
  return field->getter(address, AnyUnsafe::MutablePtr(value));
}

/// The column of an attribute, which runtimes that know no such traversal lack.
inline reflection::TypeAttrColumn StructuralColumn(const char* name) {
  reflection::EnsureTypeAttrColumn(name);
  return reflection::TypeAttrColumn(name);
}

/// Calls a hook: a function of type ABI, or a Function.
template <typename R, typename ABI, typename Self>
Expected<R> CallStructuralHook(const char* name, AnyView hook, Self* self, AnyView value) noexcept {
  if (TVM_FFI_PREDICT_TRUE(hook.type_index() == kTVMFFIOpaquePtr)) {
    auto native = reinterpret_cast<ABI>(hook.CopyToTVMFFIAny().v_ptr);
    return ExpectedUnsafe::MoveFromTVMFFIAny<R>(native(self, value));
  }
  if (hook.type_index() == kTVMFFIFunction) {
    return reflection::detail::FromPacked<R>(hook.cast<Function>().CallExpected<Any>(self, value));
  }
  return Error("TypeError", std::string(name) + ": expected a function or a pointer to one", "");
}

/// The raw result; an error remembers that it passed through node. One that another library made
/// may have no room for that, and a copy takes its place.
template <typename T>
TVMFFIAny ReleaseWithNode(Expected<T> result, AnyView node) noexcept {
  if (TVM_FFI_PREDICT_FALSE(result.is_err())) {
    Error error = std::move(result).error();
    UpdateVisitErrorContext(error, node);
    result = std::move(error);
  }
  return ExpectedUnsafe::MoveToTVMFFIAny(std::move(result));
}

/// The value as the first parameter of a callback wants it, if it is such a value as it stands.
template <typename T>
std::optional<T> MatchLink(AnyView value) {
  if constexpr (std::is_same_v<T, AnyView> || std::is_same_v<T, Any>) {
    return T(value);
  } else {
    return value.template as<T>();
  }
}

/// Calls `callback(value, states...)`, with `optional` behind if it takes that, too. Nothing where
/// the value is of another type.
template <typename R, typename Callback, typename States, typename Optionals>
std::optional<Expected<R>> CallLink(Callback& callback, AnyView value, const States& states,
                                    const Optionals& optionals) noexcept {
  using Info = FunctionInfo<std::decay_t<Callback>>;
  constexpr size_t kFewest = 1 + std::tuple_size_v<States>;
  constexpr size_t kMost = kFewest + std::tuple_size_v<Optionals>;
  static_assert(Info::num_args >= kFewest && Info::num_args <= kMost,
                "a callback takes the value, the states of the traversal, and what is optional");
  using First = std::tuple_element_t<0, typename Info::ArgType>;
  std::optional<RemoveCVRef<First>> matched = MatchLink<RemoveCVRef<First>>(value);
  if (!matched.has_value()) return std::nullopt;
  return CatchAsExpected<R>([&]() -> Expected<R> {
    const auto call = [&](auto&&... rest) -> Expected<R> {
      return callback(*std::move(matched), rest...);
    };
    if constexpr (Info::num_args == kFewest) {
      return std::apply(call, states);
    } else {
      return std::apply(call, std::tuple_cat(states, optionals));
    }
  });
}

/// CallLink with the first of a tuple of callbacks that takes the value.
template <typename R, typename Callbacks, typename States, typename Optionals>
std::optional<Expected<R>> CallFirstLink(Callbacks* callbacks, AnyView value, const States& states,
                                         const Optionals& optionals) noexcept {
  std::optional<Expected<R>> result;
  std::apply(
      [&](auto&... callback) {
        static_assert(sizeof...(callback) != 0, "at least one callback is needed");
        ((result = CallLink<R>(callback, value, states, optionals), result.has_value()) || ...);
      },
      *callbacks);
  return result;
}

}  // namespace detail
}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// Walking over the parts of a value that structural equality sees: fields of reflected objects,
// elements of containers, and what a type's own `__s_visit__` says.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/container/variant.h>
#include <tvm/ffi/expected.h>
#include <tvm/ffi/extra/structural_detail.h>
#include <tvm/ffi/extra/visit_error_context.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/reflection/native_function.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Ends a traversal early, with a value for whoever began it.
class VisitInterruptObj : public Object {
 public:
  Any value;

  VisitInterruptObj() = default;
  explicit VisitInterruptObj(Any value) : value(std::move(value)) {}

  static constexpr int32_t _type_index = kTVMFFIVisitInterrupt;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC("ffi.VisitInterrupt", VisitInterruptObj, Object);
};

class VisitInterrupt : public ObjectRef {
 public:
  VisitInterrupt() : VisitInterrupt(Any(nullptr)) {}
  explicit VisitInterrupt(Any value)
      : ObjectRef(make_object<VisitInterruptObj>(std::move(value))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(VisitInterrupt, ObjectRef, VisitInterruptObj);
};

class StructuralVisitorObj;

/// A visit across the ABI. The result is None to go on, a VisitInterrupt or an Error.
using FStructuralVisitABI = TVMFFIAny (*)(StructuralVisitorObj* visitor, AnyView value) noexcept;

/// How other libraries call a visitor.
struct StructuralVisitorVTable {
  FStructuralVisitABI visit = nullptr;
};

using FStructuralVisit =
    reflection::NativeFunctionView<Optional<VisitInterrupt>(StructuralVisitorObj*, AnyView)>;

namespace type_attr {
/// A type's own visit, which has the visitor visit each part.
inline constexpr reflection::AttrKey<FStructuralVisit> kStructuralVisit{"__s_visit__"};
}  // namespace type_attr

/// One traversal, with the region of definitions that it is in. Not for two threads at once.
class StructuralVisitorObj : public Object {
 public:
  /// Passed to the callbacks of an engine over this layer, beside the value.
  using VisitorObjType = StructuralVisitorObj;
  using StateTupleType = std::tuple<>;
  using Result = Expected<Optional<VisitInterrupt>>;

  /// As the visitor was made to visit. \throws the error, if that is the result
  Optional<VisitInterrupt> Visit(AnyView value) { return VisitExpected(value).value(); }
  Result VisitExpected(AnyView value) noexcept {
    return detail::ExpectedUnsafe::MoveFromTVMFFIAny<Optional<VisitInterrupt>>(
        vtable_->visit(this, value));
  }
  /// Visits the parts of value, by its type's `__s_visit__` or else its reflected fields.
  Result DefaultVisitExpected(AnyView value) noexcept;

  TVMFFIDefRegionKind def_region_kind() const { return def_region_mode_; }
  /// callback() in a region of that kind; a pattern region stays one all the way down.
  template <typename Callback>
  auto WithDefRegionKind(TVMFFIDefRegionKind kind, Callback&& callback) {
    detail::DefRegionScope scope(&def_region_mode_, kind);
    return std::forward<Callback>(callback)();
  }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO("ffi.StructuralVisitor", StructuralVisitorObj, Object);

 protected:
  /// vtable is borrowed, and outlives this.
  explicit StructuralVisitorObj(const StructuralVisitorVTable* vtable) : vtable_(vtable) {}
  StateTupleType StateTuple() const noexcept { return {}; }

  /// Of an engine that visits by `Result VisitOne(AnyView value) noexcept`; None has nothing to
  /// visit.
  template <typename Engine>
  static const StructuralVisitorVTable* VTableOf() {
    static const StructuralVisitorVTable vtable{
        [](StructuralVisitorObj* self, AnyView value) noexcept -> TVMFFIAny {
          if (value == nullptr) return TVMFFIAny{};
          return detail::ReleaseWithNode(static_cast<Engine*>(self)->VisitOne(value), value);
        }};
    return &vtable;
  }

  // Both are part of the ABI.
  const StructuralVisitorVTable* vtable_;
  TVMFFIDefRegionKind def_region_mode_ = kTVMFFIDefRegionKindNone;

 private:
  Result VisitFields(const Object* object) noexcept;
};

class StructuralVisitor : public ObjectRef {
 public:
  explicit StructuralVisitor(ObjectPtr<StructuralVisitorObj> visitor)
      : ObjectRef(std::move(visitor)) {
    TVM_FFI_ICHECK_NOTNULL(data_.get());
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(StructuralVisitor, ObjectRef, StructuralVisitorObj);
};

namespace detail {

inline bool StructuralVisitNeedEarlyReturn(const Optional<VisitInterrupt>& result) noexcept {
  return result.has_value();
}
template <typename T>
bool StructuralVisitNeedEarlyReturn(const Expected<T>& result) noexcept {
  return result.is_err() || result.type_index() == kTVMFFIVisitInterrupt;
}

}  // namespace detail

/// Returns an error or an interrupt from the function that visits.
#define TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(Result)                              \
  do {                                                                          \
    auto&& tvm_ffi_visited_ = (Result);                                         \
    if (::tvm::ffi::detail::StructuralVisitNeedEarlyReturn(tvm_ffi_visited_)) { \
      return ::std::move(tvm_ffi_visited_);                                     \
    }                                                                           \
  } while (0)

inline StructuralVisitorObj::Result StructuralVisitorObj::VisitFields(
    const Object* object) noexcept {
  const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(object->type_index());
  detail::DefRegionScope inside(&def_region_mode_, detail::RegionInside(type, def_region_mode_));
  Result result = Optional<VisitInterrupt>(std::nullopt);
  reflection::ForEachFieldInfoWithEarlyStop(type, [&](const TVMFFIFieldInfo* field) {
    if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashIgnore) != 0) return false;
    Any value;
    if (detail::ReadField(field, object, &value) != 0) {
      result = detail::MoveFromSafeCallRaised();
    } else {
      detail::DefRegionScope scope(&def_region_mode_, detail::RegionOf(field, def_region_mode_));
      result = VisitExpected(value);
    }
    return detail::StructuralVisitNeedEarlyReturn(result);
  });
  return result;
}

inline StructuralVisitorObj::Result StructuralVisitorObj::DefaultVisitExpected(
    AnyView value) noexcept {
  static const reflection::TypeAttrColumn column =
      detail::StructuralColumn(type_attr::kStructuralVisit.name);
  const AnyView hook = column[value.type_index()];
  if (hook != nullptr) {
    return detail::CallStructuralHook<Optional<VisitInterrupt>, FStructuralVisitABI>(
        type_attr::kStructuralVisit.name, hook, this, value);
  }
  const Object* object = value.as<Object>();
  if (object == nullptr) return Optional<VisitInterrupt>(std::nullopt);
  return VisitFields(object);
}

/// The answer of a callback of StructuralWalk: go on, leave out the parts of the value, or stop.
class WalkResult : public Variant<VisitInterrupt, int32_t> {
 public:
  using Storage = Variant<VisitInterrupt, int32_t>;
  static constexpr int32_t kAdvanceTag = 0;
  static constexpr int32_t kSkipTag = 1;

  static WalkResult Advance() { return WalkResult(kAdvanceTag); }
  static WalkResult Skip() { return WalkResult(kSkipTag); }
  static WalkResult Interrupt(VisitInterrupt signal = VisitInterrupt()) {
    return WalkResult(Storage(std::move(signal)));
  }

 private:
  template <typename, typename>
  friend struct TypeTraits;
  explicit WalkResult(Storage storage) : Storage(std::move(storage)) {}
};

template <>
inline constexpr bool use_default_type_traits_v<WalkResult> = false;

/// None, as callbacks of other languages return it, is to go on.
template <>
struct TypeTraits<WalkResult> : TypeTraits<WalkResult::Storage> {
  using Base = TypeTraits<WalkResult::Storage>;
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFINone || Base::CheckAnyStrict(source);
  }
  static WalkResult CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return WalkResult::Advance();
    return WalkResult(Base::CopyFromAnyViewAfterCheck(source));
  }
  static WalkResult MoveFromAnyAfterCheck(TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return WalkResult::Advance();
    return WalkResult(Base::MoveFromAnyAfterCheck(source));
  }
  static std::optional<WalkResult> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFINone) return WalkResult::Advance();
    std::optional<WalkResult::Storage> storage = Base::TryCastFromAnyView(source);
    if (!storage.has_value()) return std::nullopt;
    return WalkResult(*std::move(storage));
  }
  static std::string TypeStr() { return "WalkResult"; }
};

/// Whether a callback sees a value before or after its parts.
enum class WalkOrder : int32_t { kPreOrder = 0, kPostOrder = 1 };

/// Calls the first callback whose parameter fits, for each value; a value that occurs twice is
/// seen twice. Callbacks take (value, state of Parent..., [TVMFFIDefRegionKind]).
template <typename Parent, WalkOrder order, typename... Callbacks>
class StructuralWalkEngine : public Parent {
  static_assert(std::is_base_of_v<StructuralVisitorObj, Parent>, "Parent must be a visitor");

 public:
  explicit StructuralWalkEngine(Callbacks... callbacks)
      : Parent(Parent::template VTableOf<StructuralWalkEngine>()),
        callbacks_(std::move(callbacks)...) {}

 private:
  friend class StructuralVisitorObj;
  using Result = Expected<Optional<VisitInterrupt>>;

  Result VisitOne(AnyView value) noexcept {
    bool skips = false;
    if constexpr (order == WalkOrder::kPreOrder) {
      TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(Call(value, &skips));
      if (skips) return Optional<VisitInterrupt>(std::nullopt);
    }
    TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(Parent::DefaultVisitExpected(value));
    if constexpr (order == WalkOrder::kPostOrder) return Call(value, &skips);
    return Optional<VisitInterrupt>(std::nullopt);
  }

  Result Call(AnyView value, bool* skips) noexcept {
    typename Parent::StateTupleType states = Parent::StateTuple();
    std::optional<Expected<WalkResult>> result = detail::CallFirstLink<WalkResult>(
        &callbacks_, value, states, std::make_tuple(Parent::def_region_kind()));
    if (!result.has_value()) return Optional<VisitInterrupt>(std::nullopt);
    if (result->is_err()) return std::move(*result).error();
    const WalkResult wish = std::move(*result).value();
    *skips =
        wish.type_index() == kTVMFFIInt && wish.template get<int32_t>() == WalkResult::kSkipTag;
    if (wish.type_index() != kTVMFFIVisitInterrupt) return Optional<VisitInterrupt>(std::nullopt);
    return Optional<VisitInterrupt>(wish.template get<VisitInterrupt>());
  }

  std::tuple<Callbacks...> callbacks_;
};

/// Callbacks take (value, Parent::VisitorObjType*) and visit its parts themselves. Values without a
/// callback have theirs visited.
template <typename Parent, typename... Callbacks>
class StructuralVisitEngine : public Parent {
  static_assert(std::is_base_of_v<StructuralVisitorObj, Parent>, "Parent must be a visitor");

 public:
  explicit StructuralVisitEngine(Callbacks... callbacks)
      : Parent(Parent::template VTableOf<StructuralVisitEngine>()),
        callbacks_(std::move(callbacks)...) {}

 private:
  friend class StructuralVisitorObj;
  using Result = Expected<Optional<VisitInterrupt>>;

  Result VisitOne(AnyView value) noexcept {
    auto* visitor = static_cast<typename Parent::VisitorObjType*>(this);
    std::optional<Result> result = detail::CallFirstLink<Optional<VisitInterrupt>>(
        &callbacks_, value, std::make_tuple(visitor), std::tuple<>());
    return result.has_value() ? *std::move(result) : Parent::DefaultVisitExpected(value);
  }

  std::tuple<Callbacks...> callbacks_;
};

/// Walks over root and its parts with callbacks: the first whose parameter fits is called. Nothing
/// if the walk went to its end, else what interrupted it.
template <WalkOrder order, typename... Callbacks>
Expected<Optional<VisitInterrupt>> StructuralWalkExpected(AnyView root,
                                                          Callbacks&&... callbacks) noexcept {
  using Engine = StructuralWalkEngine<StructuralVisitorObj, order, std::decay_t<Callbacks>...>;
  return make_object<Engine>(std::forward<Callbacks>(callbacks)...)->VisitExpected(root);
}
/// \throws the error, if that is the result
template <WalkOrder order, typename... Callbacks>
Optional<VisitInterrupt> StructuralWalk(AnyView root, Callbacks&&... callbacks) {
  return StructuralWalkExpected<order>(root, std::forward<Callbacks>(callbacks)...).value();
}

/// Visits root with callbacks that decide themselves which parts are visited.
template <typename... Callbacks>
Expected<Optional<VisitInterrupt>> StructuralVisitExpected(AnyView root,
                                                           Callbacks&&... callbacks) noexcept {
  using Engine = StructuralVisitEngine<StructuralVisitorObj, std::decay_t<Callbacks>...>;
  return make_object<Engine>(std::forward<Callbacks>(callbacks)...)->VisitExpected(root);
}
/// \throws the error, if that is the result
template <typename... Callbacks>
Optional<VisitInterrupt> StructuralVisit(AnyView root, Callbacks&&... callbacks) {
  return StructuralVisitExpected(root, std::forward<Callbacks>(callbacks)...).value();
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

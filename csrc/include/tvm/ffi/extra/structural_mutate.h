// SPDX-License-Identifier: Apache-2.0
// Rewriting of values by callbacks: StructuralMap, which goes through all parts, and
// StructuralMutate, whose callbacks decide which.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/extra/structural_mutator.h>
#include <tvm/ffi/extra/structural_visit.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/object.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The base of the engines: remembers the replacements of variables. Layers of your own derive from
/// it, and may have another DefaultMutateExpected and states for the callbacks.
class StructuralMapEngineBase : public StructuralMutatorObj {
 public:
  using StateTupleType = std::tuple<>;
  explicit StructuralMapEngineBase(const StructuralMutatorVTable* vtable)
      : StructuralMutatorObj(vtable) {}

 protected:
  StateTupleType StateTuple() const noexcept { return {}; }

  /// Of an engine that mutates by `Expected<UnchangedOr<Any>> Map(AnyView value, InplaceMode
  /// inplace_mode) noexcept`.
  template <typename Engine>
  static const StructuralMutatorVTable* VTableOf() {
    static const StructuralMutatorVTable vtable{
        &Dispatch<Engine, InplaceMode::kDisallow>,
        &Dispatch<Engine, InplaceMode::kAllow>,
        &DispatchVarRemapGet,
        &DispatchVarRemapSet,
    };
    return &vtable;
  }

  static TVMFFIAny DispatchVarRemapGet(StructuralMutatorObj* self, AnyView var) noexcept {
    return detail::ExpectedUnsafe::MoveToTVMFFIAny(
        static_cast<StructuralMapEngineBase*>(self)->VarRemapGetImpl(var));
  }
  static TVMFFIAny DispatchVarRemapSet(StructuralMutatorObj* self, AnyView var,
                                       AnyView mapped_value) noexcept {
    return detail::ExpectedUnsafe::MoveToTVMFFIAny(
        static_cast<StructuralMapEngineBase*>(self)->VarRemapSetImpl(var, mapped_value));
  }

 private:
  template <typename Engine, InplaceMode inplace_mode>
  static TVMFFIAny Dispatch(StructuralMutatorObj* self, AnyView value) noexcept {
    return detail::ExpectedUnsafe::MoveToTVMFFIAny(
        static_cast<Engine*>(self)->Map(value, inplace_mode));
  }
  static Error NoVariable() {
    return Error("TypeError", "the key of a variable's replacement must be an object", "");
  }
  Expected<Any> VarRemapGetImpl(AnyView var) noexcept {
    const Object* key = var.as<Object>();
    if (key == nullptr) return NoVariable();
    auto found = var_remap_.find(key);
    return found == var_remap_.end() ? Any(nullptr) : found->second.value;
  }
  Expected<void> VarRemapSetImpl(AnyView var, AnyView mapped_value) noexcept {
    const Object* key = var.as<Object>();
    if (key == nullptr) return NoVariable();
    var_remap_.insert_or_assign(key, Remap{Any(var), Any(mapped_value)});
    return {};
  }

  struct Remap {
    Any owner;  // of the key
    Any value;
  };
  std::unordered_map<const Object*, Remap> var_remap_;
};

namespace detail {

/// An error remembers that it came from a callback for node.
template <typename T>
Expected<T> WithNode(Expected<T> result, AnyView node) noexcept {
  return ExpectedUnsafe::MoveFromTVMFFIAny<T>(ReleaseWithNode(std::move(result), node));
}

/// Calls the first callback that takes a value, before or after the value's parts are mapped, as
/// Engine::order() says. Engine::CallFirst(value) gives what it returned, or nothing if there is
/// none.
template <typename Engine, typename Parent>
class MapEngine : public Parent {
  static_assert(std::is_base_of_v<StructuralMapEngineBase, Parent>,
                "Parent must derive from StructuralMapEngineBase");

 protected:
  using Result = Expected<UnchangedOr<Any>>;
  using OptionalResult = std::optional<Result>;

  MapEngine() : Parent(Parent::template VTableOf<MapEngine>()) {}

 private:
  friend class tvm::ffi::graphffi_v1::StructuralMapEngineBase;

  Result Map(AnyView value, InplaceMode inplace_mode) noexcept {
    auto* engine = static_cast<Engine*>(this);
    if (engine->order() == WalkOrder::kPostOrder) {
      Result parts = this->DefaultMutateExpected(value, inplace_mode);
      return parts.is_err() ? parts : CallAfter(value, std::move(parts));
    }
    OptionalResult called = engine->CallFirst(value);
    if (!called.has_value()) return this->DefaultMutateExpected(value, inplace_mode);
    if (called->is_err()) return WithNode(*std::move(called), value);
    return MapParts(value, *std::move(called), inplace_mode);
  }

  Result CallAfter(AnyView value, Result parts) noexcept {
    const bool is_same = parts.type_index() == kTVMFFIUnchanged;
    const AnyView mapped = is_same ? value : AnyView(ExpectedUnsafe::GetData(std::as_const(parts)));
    OptionalResult called = static_cast<Engine*>(this)->CallFirst(mapped);
    if (!called.has_value()) return parts;
    if (called->is_err()) return WithNode(*std::move(called), mapped);
    return called->type_index() == kTVMFFIUnchanged ? std::move(parts) : *std::move(called);
  }

  /// The parts of what a callback gave for value.
  Result MapParts(AnyView value, Result given, InplaceMode inplace_mode) noexcept {
    const Any& other = ExpectedUnsafe::GetData(std::as_const(given));
    const bool is_same = other.type_index() == kTVMFFIUnchanged || AnyView(other).same_as(value);
    if (is_same && other.type_index() != kTVMFFIUnchanged) given = UnchangedOr<Any>(Unchanged());
    const AnyView from = is_same ? value : AnyView(other);
    const Object* object = from.as<Object>();
    // A value that the callback made is ours to change, if nobody else refers to it.
    if (!is_same && (object == nullptr || !object->unique())) inplace_mode = InplaceMode::kDisallow;
    Result parts = this->DefaultMutateExpected(from, inplace_mode);
    return parts.type_index() == kTVMFFIUnchanged ? std::move(given) : std::move(parts);
  }
};

}  // namespace detail

/// Callbacks take (value, states of Parent..., [TVMFFIDefRegionKind]) and give another value,
/// Unchanged, or an Expected of them.
template <typename Parent, WalkOrder kOrder, typename... Callbacks>
class StructuralMapEngine
    : public detail::MapEngine<StructuralMapEngine<Parent, kOrder, Callbacks...>, Parent> {
  using Base = detail::MapEngine<StructuralMapEngine, Parent>;
  friend Base;

 public:
  explicit StructuralMapEngine(Callbacks... callbacks) : callbacks_(std::move(callbacks)...) {}

 private:
  static constexpr WalkOrder order() { return kOrder; }
  typename Base::OptionalResult CallFirst(AnyView value) noexcept {
    typename Parent::StateTupleType states = this->StateTuple();
    return detail::CallFirstLink<UnchangedOr<Any>>(&callbacks_, value, states,
                                                   std::make_tuple(this->def_region_kind()));
  }

  std::tuple<Callbacks...> callbacks_;
};

/// The same with callbacks that are Functions, each for a type index; those of the second list take
/// the region of definitions, too.
template <typename Parent, WalkOrder kOrder>
class StructuralMapDynEngine
    : public detail::MapEngine<StructuralMapDynEngine<Parent, kOrder>, Parent> {
  using Base = detail::MapEngine<StructuralMapDynEngine, Parent>;
  friend Base;

 public:
  using CallbackList = Array<Tuple<int32_t, Function>>;
  StructuralMapDynEngine(CallbackList callbacks, CallbackList callbacks_with_def_region_kind)
      : callbacks_(std::move(callbacks)), with_kind_(std::move(callbacks_with_def_region_kind)) {}

 private:
  static constexpr WalkOrder order() { return kOrder; }
  typename Base::OptionalResult CallFirst(AnyView value) noexcept {
    if (std::optional<Function> callback = Find(callbacks_, value.type_index())) {
      return Call(*callback, value);
    }
    if (std::optional<Function> callback = Find(with_kind_, value.type_index())) {
      return Call(*callback, value, this->def_region_kind());
    }
    return std::nullopt;
  }
  template <typename... Args>
  static typename Base::Result Call(const Function& callback, Args... args) noexcept {
    return detail::TrustMutated<UnchangedOr<Any>>(callback.CallExpected<Any>(args...));
  }
  static std::optional<Function> Find(const CallbackList& list, int32_t type_index) {
    for (const Tuple<int32_t, Function>& entry : list) {
      if (detail::RuntimeTypeIndexMatch(type_index, entry.template get<0>())) {
        return entry.template get<1>();
      }
    }
    return std::nullopt;
  }

  CallbackList callbacks_, with_kind_;
};

/// Callbacks take (value, Parent::MutatorObjType*, [InplaceMode]) and mutate its parts themselves.
/// Values without a callback have theirs mutated.
template <typename Parent, typename... Callbacks>
class StructuralMutateEngine : public Parent {
  static_assert(std::is_base_of_v<StructuralMapEngineBase, Parent>,
                "Parent must derive from StructuralMapEngineBase");

 public:
  explicit StructuralMutateEngine(Callbacks... callbacks)
      : Parent(Parent::template VTableOf<StructuralMutateEngine>()),
        callbacks_(std::move(callbacks)...) {}

 private:
  friend class StructuralMapEngineBase;

  Expected<UnchangedOr<Any>> Map(AnyView value, InplaceMode inplace_mode) noexcept {
    auto* mutator = static_cast<typename Parent::MutatorObjType*>(this);
    std::optional<Expected<UnchangedOr<Any>>> result = detail::CallFirstLink<UnchangedOr<Any>>(
        &callbacks_, value, std::make_tuple(mutator), std::make_tuple(inplace_mode));
    if (!result.has_value()) return Parent::DefaultMutateExpected(value, inplace_mode);
    return detail::WithNode(*std::move(result), value);
  }

  std::tuple<Callbacks...> callbacks_;
};

namespace detail {
template <typename Engine>
Expected<Any> MutateRoot(const ObjectPtr<Engine>& mutator, Any root) noexcept {
  Expected<UnchangedOr<Any>> result = mutator->MutateExpected(root, InplaceMode::kAllow);
  if (result.is_err()) return std::move(result).error();
  return std::move(result).value().ValueOrUnchanged(std::move(root));
}
}  // namespace detail

/// root with each of its parts replaced by what the first callback that takes it gives. A root that
/// nobody else refers to is changed in place: pass it with std::move.
template <WalkOrder order, typename... Callbacks>
Expected<Any> StructuralMapExpected(Any root, Callbacks&&... callbacks) noexcept {
  using Engine = StructuralMapEngine<StructuralMapEngineBase, order, std::decay_t<Callbacks>...>;
  return detail::MutateRoot(make_object<Engine>(std::forward<Callbacks>(callbacks)...),
                            std::move(root));
}
/// \throws the error, if that is the result
template <WalkOrder order, typename... Callbacks>
Any StructuralMap(Any root, Callbacks&&... callbacks) {
  return StructuralMapExpected<order>(std::move(root), std::forward<Callbacks>(callbacks)...)
      .value();
}

/// The same with callbacks that decide themselves which parts are mutated.
template <typename... Callbacks>
Expected<Any> StructuralMutateExpected(Any root, Callbacks&&... callbacks) noexcept {
  using Engine = StructuralMutateEngine<StructuralMapEngineBase, std::decay_t<Callbacks>...>;
  return detail::MutateRoot(make_object<Engine>(std::forward<Callbacks>(callbacks)...),
                            std::move(root));
}
/// \throws the error, if that is the result
template <typename... Callbacks>
Any StructuralMutate(Any root, Callbacks&&... callbacks) {
  return StructuralMutateExpected(std::move(root), std::forward<Callbacks>(callbacks)...).value();
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

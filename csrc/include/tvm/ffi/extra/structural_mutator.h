// SPDX-License-Identifier: Apache-2.0
// StructuralMutatorObj: one rewriting of a value and its parts, and how types take part in it.
#pragma once

#include <tvm/ffi/extra/structural_detail.h>
#include <tvm/ffi/extra/unchanged_or.h>
#include <tvm/ffi/reflection/accessor.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Whether a value that nobody else refers to may be changed instead of copied.
enum class InplaceMode : int32_t { kDisallow = 0, kAllow = 1 };

class StructuralMutatorObj;

/// A mutation across the ABI. The result is a value, the unchanged mark or an Error.
using FStructuralMutateABI = TVMFFIAny (*)(StructuralMutatorObj* mutator, AnyView value) noexcept;
/// The replacement of a variable: None if nothing is known.
using FStructuralVarRemapGet = TVMFFIAny (*)(StructuralMutatorObj* mutator, AnyView var) noexcept;
/// None, or an Error.
using FStructuralVarRemapSet = TVMFFIAny (*)(StructuralMutatorObj* mutator, AnyView var,
                                             AnyView mapped_value) noexcept;

/// How other libraries call a mutator.
struct StructuralMutatorVTable {
  FStructuralMutateABI mutate = nullptr;
  /// Of a value that only the caller refers to.
  FStructuralMutateABI maybe_inplace_mutate = nullptr;
  FStructuralVarRemapGet var_remap_get = nullptr;
  FStructuralVarRemapSet var_remap_set = nullptr;
};

using FStructuralMutate =
    reflection::NativeFunctionView<UnchangedOr<Any>(StructuralMutatorObj*, AnyView)>;

namespace type_attr {
/// A type's own mutation, which leaves the value as it is and gives a new one.
inline constexpr reflection::AttrKey<FStructuralMutate> kStructuralMutate{"__s_mutate__"};
/// One that may change the value.
inline constexpr reflection::AttrKey<FStructuralMutate> kStructuralMaybeInplaceMutate{
    "__s_maybe_inplace_mutate__"};
}  // namespace type_attr

/// One traversal, with the region of definitions that it is in. Not for two threads at once.
class StructuralMutatorObj : public Object {
 public:
  /// Passed to the callbacks of an engine over this layer, beside the value.
  using MutatorObjType = StructuralMutatorObj;
  using Result = Expected<UnchangedOr<Any>>;

  /// As the mutator was made to mutate. \throws the error, if that is the result
  UnchangedOr<Any> Mutate(AnyView value, InplaceMode inplace_mode = InplaceMode::kDisallow) {
    return MutateExpected(value, inplace_mode).value();
  }
  Result MutateExpected(AnyView value, InplaceMode inplace_mode = InplaceMode::kDisallow) noexcept {
    const Object* object = value.as<Object>();
    const bool in_place =
        inplace_mode == InplaceMode::kAllow && object != nullptr && object->unique();
    const auto mutate = in_place ? vtable_->maybe_inplace_mutate : vtable_->mutate;
    return detail::ExpectedUnsafe::MoveFromTVMFFIAny<UnchangedOr<Any>>(mutate(this, value));
  }
  /// Mutates the parts of value, by its type's hooks or else its reflected fields.
  Result DefaultMutateExpected(AnyView value,
                               InplaceMode inplace_mode = InplaceMode::kDisallow) noexcept;

  /// The replacement of var in this traversal; None if nothing is known.
  Expected<Any> VarRemapGetExpected(AnyView var) noexcept {
    return detail::ExpectedUnsafe::MoveFromTVMFFIAny<Any>(vtable_->var_remap_get(this, var));
  }
  Expected<void> VarRemapSetExpected(AnyView var, AnyView mapped_value) noexcept {
    return detail::ExpectedUnsafe::MoveFromTVMFFIAny<void>(
        vtable_->var_remap_set(this, var, mapped_value));
  }

  TVMFFIDefRegionKind def_region_kind() const { return def_region_mode_; }
  /// callback() in a region of that kind; a pattern region stays one all the way down.
  template <typename Callback>
  auto WithDefRegionKind(TVMFFIDefRegionKind kind, Callback&& callback)
      -> decltype(std::forward<Callback>(callback)()) {
    detail::DefRegionScope scope(&def_region_mode_, kind);
    return std::forward<Callback>(callback)();
  }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO("ffi.StructuralMutator", StructuralMutatorObj, Object);

 protected:
  /// vtable is borrowed, and outlives this.
  explicit StructuralMutatorObj(const StructuralMutatorVTable* vtable) : vtable_(vtable) {}

  // Both are part of the ABI.
  const StructuralMutatorVTable* vtable_;
  TVMFFIDefRegionKind def_region_mode_ = kTVMFFIDefRegionKindNone;

 private:
  Result MutateByHook(AnyView value, InplaceMode inplace_mode) noexcept;
  Result MutateObject(const Object* object) noexcept;
  Result MutateFields(const Object* object, const TVMFFITypeInfo* type) noexcept;
  std::optional<Error> MutateField(const Object* object, const TVMFFIFieldInfo* field,
                                   Any* copy) noexcept;
};

class StructuralMutator : public ObjectRef {
 public:
  explicit StructuralMutator(ObjectPtr<StructuralMutatorObj> mutator)
      : ObjectRef(std::move(mutator)) {
    TVM_FFI_ICHECK_NOTNULL(data_.get());
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(StructuralMutator, ObjectRef, StructuralMutatorObj);
};

namespace detail {

/// A copy of object whose fields may be set. It is another object of the same type, or an error.
inline Expected<Any> CopyShallow(const Object* object) noexcept {
  static const reflection::TypeAttrColumn column = StructuralColumn(type_attr::kShallowCopy.name);
  const AnyView hook = column[object->type_index()];
  if (hook.type_index() != kTVMFFIFunction) {
    return Error("TypeError",
                 "__ffi_shallow_copy__ of `" + object->GetTypeKey() + "` must be a function", "");
  }
  Expected<Any> copy = hook.cast<Function>().CallExpected<Any>(AnyView(object));
  if (copy.is_err()) return copy;
  const Object* made = ExpectedUnsafe::GetData(std::as_const(copy)).as<Object>();
  if (made != nullptr && made != object && made->type_index() == object->type_index()) return copy;
  return Error("TypeError", "__ffi_shallow_copy__ must give another object of the same type", "");
}

/// A return code of the ABI.
inline int WriteField(const TVMFFIFieldInfo* field, const Object* object, const Any& value) {
  if (field->setter == nullptr) {
    SetSafeCallRaised(Error("TypeError",
                            "Cannot mutate field `" +
                                std::string(field->name.data, field->name.size) + "` of `" +
                                object->GetTypeKey() + "`: it has no setter",
                            ""));
    return -1;
  }
  void* address = reinterpret_cast<char*>(ObjectUnsafe::GetHeader(object)) + field->offset;
  return reflection::CallFieldSetter(field, address, AnyUnsafe::TVMFFIAnyPtrFromAny(value));
}

/// The result as an Expected<T>: a TypeError where it holds something else.
template <typename T, typename U>
Expected<T> NarrowMutated(Expected<U> result) {
  if constexpr (type_subsumes_v<Expected<T>, Expected<U>>) {
    return ExpectedUnsafe::MoveFromTVMFFIAny<T>(ExpectedUnsafe::MoveToTVMFFIAny(std::move(result)));
  } else {
    return std::move(result).template as_or_error<T>();
  }
}
/// The same without a check.
template <typename T, typename U>
Expected<T> TrustMutated(Expected<U> result) {
  return ExpectedUnsafe::MoveFromTVMFFIAny<T>(ExpectedUnsafe::MoveToTVMFFIAny(std::move(result)));
}

}  // namespace detail

/// Returns an error from the function that mutates.
#define TVM_FFI_S_MUTATE_MAYBE_EARLY_RETURN(Result)                         \
  do {                                                                      \
    auto&& tvm_ffi_mutated_ = (Result);                                     \
    if (TVM_FFI_PREDICT_FALSE(tvm_ffi_mutated_.is_err())) {                 \
      return ::tvm::ffi::Unexpected(::std::move(tvm_ffi_mutated_).error()); \
    }                                                                       \
  } while (0)

#define TVM_FFI_S_MUTATE_ASSIGN_(Convert, Result, Type, Name, ResultExpr) \
  auto Result = ::tvm::ffi::detail::Convert<Type>(ResultExpr);            \
  TVM_FFI_S_MUTATE_MAYBE_EARLY_RETURN(Result);                            \
  Type Name = ::std::move(Result).value()
/// Declares Name as what ResultExpr gives, or returns its error, or a TypeError where it is no
/// Type.
#define TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(Type, Name, ResultExpr)                                  \
  TVM_FFI_S_MUTATE_ASSIGN_(NarrowMutated, TVM_FFI_STR_CONCAT(tvm_ffi_mutated_value_, __COUNTER__), \
                           Type, Name, ResultExpr)
/// The same where the result is known to be a Type.
#define TVM_FFI_UNSAFE_S_MUTATE_ASSIGN_OR_RETURN(Type, Name, ResultExpr)                          \
  TVM_FFI_S_MUTATE_ASSIGN_(TrustMutated, TVM_FFI_STR_CONCAT(tvm_ffi_mutated_value_, __COUNTER__), \
                           Type, Name, ResultExpr)

inline StructuralMutatorObj::Result StructuralMutatorObj::DefaultMutateExpected(
    AnyView value, InplaceMode inplace_mode) noexcept {
  return detail::TrustMutated<UnchangedOr<Any>>(detail::ExpectedUnsafe::MoveFromTVMFFIAny<Any>(
      detail::ReleaseWithNode(MutateByHook(value, inplace_mode), value)));
}

inline StructuralMutatorObj::Result StructuralMutatorObj::MutateByHook(
    AnyView value, InplaceMode inplace_mode) noexcept {
  static const reflection::TypeAttrColumn copying =
      detail::StructuralColumn(type_attr::kStructuralMutate.name);
  static const reflection::TypeAttrColumn changing =
      detail::StructuralColumn(type_attr::kStructuralMaybeInplaceMutate.name);
  const int32_t type_index = value.type_index();
  const char* name = type_attr::kStructuralMaybeInplaceMutate.name;
  AnyView hook = inplace_mode == InplaceMode::kAllow ? changing[type_index] : AnyView();
  if (hook == nullptr) {
    name = type_attr::kStructuralMutate.name;
    hook = copying[type_index];
  }
  if (hook != nullptr) {
    return detail::CallStructuralHook<UnchangedOr<Any>, FStructuralMutateABI>(name, hook, this,
                                                                              value);
  }
  const Object* object = value.as<Object>();
  if (object == nullptr) return UnchangedOr<Any>(Any(value));
  return MutateObject(object);
}

/// Variables and nodes of graphs become the same thing wherever they occur.
inline StructuralMutatorObj::Result StructuralMutatorObj::MutateObject(
    const Object* object) noexcept {
  const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(object->type_index());
  const int32_t kind = detail::StructuralKindOf(type);
  const bool is_var = kind == kTVMFFISEqHashKindFreeVar;
  const bool is_node = kind == kTVMFFISEqHashKindDAGNode;
  if (!is_var && !is_node) return MutateFields(object, type);
  Expected<Any> known = VarRemapGetExpected(object);
  if (known.type_index() != kTVMFFINone) {
    return detail::TrustMutated<UnchangedOr<Any>>(std::move(known));
  }
  if (is_var && def_region_mode_ == kTVMFFIDefRegionKindNone) return UnchangedOr<Any>(Unchanged());
  Result result = MutateFields(object, type);
  if (result.is_err()) return result;
  const bool is_pattern = def_region_mode_ == kTVMFFIDefRegionKindPattern;
  if (is_node || is_pattern || result.type_index() != kTVMFFIUnchanged) {
    const Any& mapped = detail::ExpectedUnsafe::GetData(std::as_const(result));
    TVM_FFI_S_MUTATE_MAYBE_EARLY_RETURN(VarRemapSetExpected(object, mapped));
  }
  return result;
}

inline StructuralMutatorObj::Result StructuralMutatorObj::MutateFields(
    const Object* object, const TVMFFITypeInfo* type) noexcept {
  detail::DefRegionScope inside(&def_region_mode_, detail::RegionInside(type, def_region_mode_));
  Any copy = Unchanged();
  std::optional<Error> error;
  reflection::ForEachFieldInfoWithEarlyStop(type, [&](const TVMFFIFieldInfo* field) {
    if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashIgnore) != 0) return false;
    error = MutateField(object, field, &copy);
    return error.has_value();
  });
  if (error.has_value()) return *std::move(error);
  return detail::UnchangedOrUnsafe::MoveFromTVMFFIAny<Any>(
      detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(copy)));
}

/// Sets the field of *copy, which is made of object when the first field changes.
inline std::optional<Error> StructuralMutatorObj::MutateField(const Object* object,
                                                              const TVMFFIFieldInfo* field,
                                                              Any* copy) noexcept {
  Any value;
  if (detail::ReadField(field, object, &value) != 0) return detail::MoveFromSafeCallRaised();
  detail::DefRegionScope scope(&def_region_mode_, detail::RegionOf(field, def_region_mode_));
  Result result = MutateExpected(value, InplaceMode::kDisallow);
  if (result.is_err()) return std::move(result).error();
  UnchangedOr<Any> mutated = std::move(result).value();
  if (mutated.UnchangedOrSameAs(value)) return std::nullopt;
  if (copy->type_index() == kTVMFFIUnchanged) {
    Expected<Any> made = detail::CopyShallow(object);
    if (made.is_err()) return std::move(made).error();
    *copy = std::move(made).value();
  }
  const Any replacement = std::move(mutated).ValueUnchecked();
  if (detail::WriteField(field, copy->as<Object>(), replacement) == 0) return std::nullopt;
  return detail::MoveFromSafeCallRaised();
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// ffi.StructuralMap and ffi.StructuralMutate: changes of values by functions of a host language.
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/reflection/registry.h>

#include "structural_engine.h"

namespace graphffi::runtime {
namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::Any;
using ffi::AnyView;
using ffi::Object;
using MutateLinks = ffi::Array<ffi::Tuple<int32_t, ffi::Function, bool>>;

Any Unchanged() { return Adopt({kTVMFFIUnchanged, {0}, {0}}); }
bool IsUnchanged(const Any& value) { return value.type_index() == kTVMFFIUnchanged; }
bool IsError(const Any& value) { return value.type_index() == kTVMFFIError; }
bool IsUnique(AnyView value) {
  return value.type_index() >= kTVMFFIStaticObjectBegin &&
         value.CopyToTVMFFIAny().v_obj->combined_ref_count == ((uint64_t{1} << 32) | 1);
}

/// The layout of mutators of any library.
class MutatorObj : public Object {
 public:
  /// They give a value, the mark for an unchanged one, or an error.
  struct Table {
    TVMFFIAny (*mutate)(MutatorObj* mutator, AnyView value);
    TVMFFIAny (*maybe_inplace_mutate)(MutatorObj* mutator, AnyView value);
    TVMFFIAny (*var_remap_get)(MutatorObj* mutator, AnyView variable);
    TVMFFIAny (*var_remap_set)(MutatorObj* mutator, AnyView variable, AnyView value);
  };

  explicit MutatorObj(const Table* table) : table_(table) {}

  Any Mutate(AnyView value, bool in_place) {
    bool may = in_place && IsUnique(value);
    return Adopt((may ? table_->maybe_inplace_mutate : table_->mutate)(this, value));
  }
  Any GetRemap(AnyView variable) { return Adopt(table_->var_remap_get(this, variable)); }
  Any SetRemap(AnyView variable, AnyView value) {
    return Adopt(table_->var_remap_set(this, variable, value));
  }

  Any MutateInside(AnyView value, bool in_place) noexcept {
    return RunAt(value, [&] { return TryMutateInside(value, in_place); });
  }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO("ffi.StructuralMutator", MutatorObj, Object);

 private:
  Any TryMutateInside(AnyView value, bool in_place) {
    int32_t index = value.type_index();
    const TVMFFIAny* hook =
        in_place ? ffi::detail::OptTypeAttr("__s_maybe_inplace_mutate__", index) : nullptr;
    if (hook == nullptr) hook = ffi::detail::OptTypeAttr("__s_mutate__", index);
    if (hook != nullptr) return CallHook(*hook, value);
    if (index < kTVMFFIStaticObjectBegin) return value;
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(index);
    int32_t identity = IdentityKind(type);
    bool is_variable = identity == kTVMFFISEqHashKindFreeVar;
    if (!is_variable && identity != kTVMFFISEqHashKindDAGNode) return MutateFields(value, type);
    if (Any known = GetRemap(value); known != nullptr) return known;
    // A variable outside of definitions is used there, and is what its definition made of it.
    if (is_variable && region == kTVMFFIDefRegionKindNone) return Unchanged();
    Any result = MutateFields(value, type);
    bool is_noted = !is_variable || region == kTVMFFIDefRegionKindPattern || !IsUnchanged(result);
    if (is_noted && !IsError(result)) ValueOrThrow(SetRemap(value, result));
    return result;
  }

  Any CallHook(const TVMFFIAny& hook, AnyView value) {
    if (hook.type_index == kTVMFFIOpaquePtr) {
      using Hook = TVMFFIAny (*)(MutatorObj*, AnyView);
      return Adopt(reinterpret_cast<Hook>(hook.v_ptr)(this, value));
    }
    if (hook.type_index == kTVMFFIFunction) {
      return AnyView::CopyFromTVMFFIAny(hook).cast<ffi::Function>()(this, value);
    }
    TVM_FFI_THROW(TypeError) << "__s_mutate__: expected a function or a pointer to one";
    TVM_FFI_UNREACHABLE();
  }

  /// A copy with the changed fields.
  Any MutateFields(AnyView value, const TVMFFITypeInfo* type) {
    const auto* object = value.cast<const Object*>();
    RegionScope scope(&region, RegionScope::OfFields(IdentityKind(type), region));
    Any result = Unchanged();
    refl::ForEachFieldInfoWithEarlyStop(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashIgnore) != 0) return false;
      Any before = refl::FieldGetter(field)(object);
      RegionScope inner(&region, RegionScope::OfField(field, region));
      Any after = Mutate(before, false);
      if (IsUnchanged(after) || after.same_as(before)) return false;
      if (IsError(after)) {
        result = after;
        return true;
      }
      if (IsUnchanged(result)) result = ShallowCopy(object);
      SetField(field, type, result, after);
      return false;
    });
    return result;
  }

  static Any ShallowCopy(const Object* object) {
    const TVMFFIAny* copy =
        ffi::detail::OptTypeAttr(ffi::type_attr::kShallowCopy.name, object->type_index());
    if (copy == nullptr || copy->type_index != kTVMFFIFunction) {
      TVM_FFI_THROW(TypeError) << "__ffi_shallow_copy__: expected a function";
    }
    return AnyView::CopyFromTVMFFIAny(*copy).cast<ffi::Function>()(object);
  }

  static void SetField(const TVMFFIFieldInfo* field, const TVMFFITypeInfo* type, const Any& copy,
                       const Any& value) {
    if (field->setter == nullptr) {
      TVM_FFI_THROW(TypeError) << "structural mutation: field `" << ffi::String(field->name)
                               << "` of `" << ffi::String(type->type_key)
                               << "`: expected a setter, got none";
    }
    refl::FieldSetter set(field);
    set(copy.cast<const Object*>(), value);
  }

  const Table* table_;

 public:
  TVMFFIDefRegionKind region = kTVMFFIDefRegionKindNone;
};

class Mutator : public ffi::ObjectRef {
 public:
  explicit Mutator(ffi::ObjectPtr<MutatorObj> object) : ffi::ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Mutator, ffi::ObjectRef, MutatorObj);
};

/// A mutator with its own table of what variables became. Run(value, in_place) is Engine's.
template <typename Engine>
class EngineObj : public MutatorObj {
 public:
  EngineObj() : MutatorObj(&kTable) {}

 private:
  template <bool kInPlace>
  static TVMFFIAny Dispatch(MutatorObj* self, AnyView value) {
    try {
      return Release(static_cast<Engine*>(self)->Run(value, kInPlace));
    } catch (const ffi::Error& error) {
      return Release(error);
    }
  }
  static TVMFFIAny Get(MutatorObj* self, AnyView variable) {
    return OfVariable(variable, [&](const ffi::ObjectRef& key) -> Any {
      const auto& remap = static_cast<EngineObj*>(self)->remap_;
      return remap.count(key) == 0 ? Any() : remap.at(key);
    });
  }
  static TVMFFIAny Set(MutatorObj* self, AnyView variable, AnyView value) {
    return OfVariable(variable, [&](const ffi::ObjectRef& key) -> Any {
      static_cast<EngineObj*>(self)->remap_.Set(key, Any(value));
      return nullptr;
    });
  }
  template <typename Body>
  static TVMFFIAny OfVariable(AnyView variable, Body&& body) {
    if (variable.type_index() < kTVMFFIStaticObjectBegin) {
      return Release(
          ffi::Error("TypeError",
                     "structural mutation: expected an object as variable, got a plain value", ""));
    }
    return Release(body(variable.cast<ffi::ObjectRef>()));
  }
  static constexpr Table kTable = {Dispatch<false>, Dispatch<true>, Get, Set};

  ffi::Map<ffi::ObjectRef, Any> remap_;
};

/// Calls functions before or after it changes what is inside a value.
class MapperObj : public EngineObj<MapperObj> {
 public:
  MapperObj(Links links, Links with_region, bool post_order)
      : links_(std::move(links)), with_region_(std::move(with_region)), post_order_(post_order) {}

  Any Run(AnyView value, bool in_place) {
    return post_order_ ? RunPostOrder(value, in_place) : RunPreOrder(value, in_place);
  }

 private:
  Any Ask(AnyView value, bool* found) {
    return RunAt(value, [&] {
      std::optional<Any> said = CallLink(links_, with_region_, value, region);
      *found = said.has_value();
      return said.value_or(Unchanged());
    });
  }

  Any RunPostOrder(AnyView value, bool in_place) {
    Any inside = MutateInside(value, in_place);
    if (IsError(inside)) return inside;
    bool found = false;
    Any said = Ask(IsUnchanged(inside) ? value : AnyView(inside), &found);
    return IsUnchanged(said) ? inside : said;
  }

  Any RunPreOrder(AnyView value, bool in_place) {
    bool found = false;
    Any said = Ask(value, &found);
    if (IsError(said)) return said;
    bool is_same = IsUnchanged(said) || said.same_as(Any(value));
    AnyView next = is_same ? value : AnyView(said);
    Any inside = MutateInside(next, in_place && (is_same || IsUnique(next)));
    return IsUnchanged(inside) ? said : inside;
  }

  Links links_;
  Links with_region_;
  bool post_order_;
};

/// Calls functions, which change themselves what is inside a value.
class CallingMutatorObj : public EngineObj<CallingMutatorObj> {
 public:
  explicit CallingMutatorObj(MutateLinks links) : links_(std::move(links)) {}

  Any Run(AnyView value, bool in_place) {
    for (const auto& link : links_) {
      if (!IsOfType(value.type_index(), link.get<0>())) continue;
      return RunAt(value, [&]() -> Any {
        Mutator self = ffi::GetRef<Mutator>(this);
        if (!link.get<2>()) return link.get<1>()(value, self);
        return link.get<1>()(value, self, static_cast<int32_t>(in_place));
      });
    }
    return MutateInside(value, in_place);
  }

 private:
  MutateLinks links_;
};

Any Resolve(Any result, AnyView original) {
  result = ValueOrThrow(std::move(result));
  return IsUnchanged(result) ? Any(original) : result;
}

Any Map(AnyView root, const Links& links, const Links& with_region, int32_t order) {
  Mutator mapper(ffi::make_object<MapperObj>(links, with_region, order != 0));
  Any kept = root;
  return Resolve(mapper->Mutate(kept, true), kept);
}

Any MutateWith(AnyView root, const MutateLinks& links) {
  Mutator mutator(ffi::make_object<CallingMutatorObj>(links));
  Any kept = root;
  return Resolve(mutator->Mutate(kept, true), kept);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<MutatorObj>(refl::init(false));
  refl::GlobalDef()
      .def("ffi.StructuralMap", Map)
      .def("ffi.StructuralMutate", MutateWith)
      .def("ffi.StructuralMutatorMutate",
           [](const Mutator& mutator, AnyView value) {
             return Resolve(mutator->Mutate(value, false), value);
           })
      .def("ffi.StructuralMutatorDefaultMutate",
           [](const Mutator& mutator, AnyView value) {
             return Resolve(mutator->MutateInside(value, false), value);
           })
      .def("ffi.StructuralMutatorVarRemapGet",
           [](const Mutator& mutator, AnyView variable) {
             return ValueOrThrow(mutator->GetRemap(variable));
           })
      .def("ffi.StructuralMutatorVarRemapSet",
           [](const Mutator& mutator, AnyView variable, AnyView value) {
             ValueOrThrow(mutator->SetRemap(variable, value));
           })
      .def("ffi.StructuralMutatorDefRegionKind",
           [](const Mutator& mutator) { return static_cast<int32_t>(mutator->region); })
      .def("ffi.StructuralMutatorWithDefRegionKind",
           [](const Mutator& mutator, int32_t kind, const ffi::Function& callback) {
             RegionScope scope(&mutator->region, static_cast<TVMFFIDefRegionKind>(kind));
             return callback();
           });
}

}  // namespace
}  // namespace graphffi::runtime

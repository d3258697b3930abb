// SPDX-License-Identifier: Apache-2.0
// ffi.StructuralMap and ffi.StructuralMutate: changes of values by functions of a host language.
#include <tvm/ffi/extra/structural_mutate.h>
#include <tvm/ffi/reflection/registry.h>

#include "structural_engine.h"

namespace graphffi::runtime {
namespace {

using ffi::InplaceMode;
using ffi::StructuralMutator;
using ffi::StructuralMutatorObj;
using ffi::WalkOrder;
using Mutated = ffi::UnchangedOr<Any>;
using MutateLink = ffi::Tuple<int32_t, ffi::Function, bool>;
using MutateLinks = ffi::Array<MutateLink>;

/// An engine that refuses what is nested too deeply for the stack.
class GuardedEngineObj : public ffi::StructuralMapEngineBase {
 public:
  using ffi::StructuralMapEngineBase::StructuralMapEngineBase;

  Result DefaultMutateExpected(AnyView value, InplaceMode inplace_mode) noexcept {
    return Guarded(
        [&] { return StructuralMutatorObj::DefaultMutateExpected(value, inplace_mode); });
  }

 protected:
  template <typename Body>
  Result Guarded(Body&& body) noexcept {
    return ffi::detail::CatchAsExpected<Mutated>([&]() -> Result {
      StackGuard guard(&depth_);
      return body();
    });
  }

 private:
  int depth_ = 0;
};

/// Calls functions before or after it changes what is inside a value.
class MapperObj : public ffi::detail::MapEngine<MapperObj, GuardedEngineObj> {
 public:
  MapperObj(Links links, Links with_region, WalkOrder order)
      : links_(std::move(links)), with_region_(std::move(with_region)), order_(order) {}

  WalkOrder order() const { return order_; }
  OptionalResult CallFirst(AnyView value) noexcept {
    Called called = CallLink(links_, with_region_, value, def_region_kind());
    if (!called.has_value()) return std::nullopt;
    return ffi::detail::TrustMutated<Mutated>(*std::move(called));
  }

 private:
  Links links_;
  Links with_region_;
  WalkOrder order_;
};

/// Calls functions, which change themselves what is inside a value.
class CallingMutatorObj : public GuardedEngineObj {
 public:
  explicit CallingMutatorObj(MutateLinks links)
      : GuardedEngineObj(VTableOf<CallingMutatorObj>()), links_(std::move(links)) {}

  Result Map(AnyView value, InplaceMode inplace_mode) noexcept {
    std::optional<MutateLink> link = FindLink(links_, value);
    if (!link.has_value()) return DefaultMutateExpected(value, inplace_mode);
    return ffi::detail::WithNode(Guarded([&] { return Call(*link, value, inplace_mode); }), value);
  }

 private:
  Result Call(const MutateLink& link, AnyView value, InplaceMode inplace_mode) noexcept {
    auto self = ffi::GetRef<StructuralMutator>(this);
    ffi::Function function = link.get<1>();
    return ffi::detail::TrustMutated<Mutated>(
        link.get<2>() ? function.CallExpected<Any>(value, self, static_cast<int32_t>(inplace_mode))
                      : function.CallExpected<Any>(value, self));
  }

  MutateLinks links_;
};

/// \throws the error, if that is the result
template <typename Engine>
Any MutateRoot(const ffi::ObjectPtr<Engine>& mutator, AnyView root) {
  return ffi::detail::MutateRoot(mutator, Any(root)).value();
}

Any Map(AnyView root, const Links& links, const Links& with_region, int32_t order) {
  WalkOrder known = order == 0 ? WalkOrder::kPreOrder : WalkOrder::kPostOrder;
  return MutateRoot(ffi::make_object<MapperObj>(links, with_region, known), root);
}

Any MutateWith(AnyView root, const MutateLinks& links) {
  return MutateRoot(ffi::make_object<CallingMutatorObj>(links), root);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<StructuralMutatorObj>(refl::init(false));
  refl::GlobalDef()
      .def("ffi.StructuralMap", Map)
      .def("ffi.StructuralMutate", MutateWith)
      .def("ffi.StructuralMutatorMutate",
           [](const StructuralMutator& mutator, AnyView value) {
             return mutator->Mutate(value).ValueOrUnchanged(value);
           })
      .def("ffi.StructuralMutatorDefaultMutate",
           [](const StructuralMutator& mutator, AnyView value) {
             return mutator->DefaultMutateExpected(value).value().ValueOrUnchanged(value);
           })
      .def("ffi.StructuralMutatorVarRemapGet",
           [](const StructuralMutator& mutator, AnyView variable) {
             return mutator->VarRemapGetExpected(variable).value();
           })
      .def("ffi.StructuralMutatorVarRemapSet",
           [](const StructuralMutator& mutator, AnyView variable, AnyView value) {
             mutator->VarRemapSetExpected(variable, value).value();
           })
      .def("ffi.StructuralMutatorDefRegionKind", DefRegionKindOf<StructuralMutator>)
      .def("ffi.StructuralMutatorWithDefRegionKind", CallInRegion<StructuralMutator>);
}

}  // namespace
}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// ffi.StructuralWalk and ffi.StructuralVisit: visits of values by functions of a host language.
#include <tvm/ffi/extra/structural_visit.h>
#include <tvm/ffi/reflection/registry.h>

#include "structural_engine.h"

namespace graphffi::runtime {
namespace {

using ffi::StructuralVisitor;
using ffi::StructuralVisitorObj;
using ffi::VisitInterrupt;
using ffi::VisitInterruptObj;
using Interrupt = ffi::Optional<VisitInterrupt>;

/// Calls functions before or after it visits what is inside a value.
class WalkerObj : public StructuralVisitorObj {
 public:
  WalkerObj(Links links, Links with_region, bool post_order)
      : StructuralVisitorObj(VTableOf<WalkerObj>()),
        links_(std::move(links)),
        with_region_(std::move(with_region)),
        post_order_(post_order) {}

  Result VisitOne(AnyView value) noexcept {
    return ffi::detail::CatchAsExpected<Interrupt>([&]() -> Result {
      StackGuard guard(&depth_);
      return Walk(value);
    });
  }

 private:
  Result Walk(AnyView value) {
    bool skips = false;
    if (!post_order_) TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(Ask(value, &skips));
    if (skips) return Interrupt();
    TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(DefaultVisitExpected(value));
    return post_order_ ? Ask(value, &skips) : Interrupt();
  }

  /// Whether to stop here, or to leave out what is inside. \throws Error(TypeError)
  Interrupt Ask(AnyView value, bool* skips) {
    constexpr int64_t kSkip = 1;
    Called called = CallLink(links_, with_region_, value, def_region_kind());
    if (!called.has_value()) return std::nullopt;
    Any said = (*std::move(called)).value();
    if (auto interrupt = said.as<Interrupt>()) return *std::move(interrupt);
    if (said.type_index() != kTVMFFIInt) {
      TVM_FFI_THROW(TypeError) << "expected `WalkResult`, got `" << said.GetTypeKey() << "`";
    }
    *skips = said.cast<int64_t>() == kSkip;
    return std::nullopt;
  }

  Links links_;
  Links with_region_;
  bool post_order_;
  int depth_ = 0;
};

/// Calls a function for each value; the function visits the parts of the value itself.
class CallingVisitorObj : public StructuralVisitorObj {
 public:
  explicit CallingVisitorObj(Links links)
      : StructuralVisitorObj(VTableOf<CallingVisitorObj>()), links_(std::move(links)) {}

  Result VisitOne(AnyView value) noexcept {
    return ffi::detail::CatchAsExpected<Interrupt>([&]() -> Result {
      StackGuard guard(&depth_);
      auto link = FindLink(links_, value);
      return link.has_value() ? Call(link->get<1>(), value) : DefaultVisitExpected(value);
    });
  }

 private:
  /// \throws Error(TypeError) if the function gives another value
  Interrupt Call(const ffi::Function& function, AnyView value) {
    Any said = function.CallExpected<Any>(value, ffi::GetRef<StructuralVisitor>(this)).value();
    if (auto interrupt = said.as<Interrupt>()) return *std::move(interrupt);
    TVM_FFI_THROW(TypeError) << "expected `Optional<ffi.VisitInterrupt>`, got `"
                             << said.GetTypeKey() << "`";
    TVM_FFI_UNREACHABLE();
  }

  Links links_;
  int depth_ = 0;
};

Any Walk(AnyView root, const Links& links, const Links& with_region, int32_t order) {
  Any kept = root;  // which the caller may have moved here
  return ffi::make_object<WalkerObj>(links, with_region, order != 0)->Visit(kept);
}

Any VisitWith(AnyView root, const Links& links) {
  Any kept = root;
  return ffi::make_object<CallingVisitorObj>(links)->Visit(kept);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<VisitInterruptObj>(refl::init(false)).def_ro("value", &VisitInterruptObj::value);
  refl::ObjectDef<StructuralVisitorObj>(refl::init(false));
  refl::GlobalDef()
      .def("ffi.VisitInterrupt",
           [](Any value) { return ffi::ObjectRef(VisitInterrupt(std::move(value))); })
      .def("ffi.StructuralWalk", Walk)
      .def("ffi.StructuralVisit", VisitWith)
      .def("ffi.StructuralVisitorVisit",
           [](const StructuralVisitor& visitor, AnyView value) -> Any {
             return visitor->Visit(value);
           })
      .def("ffi.StructuralVisitorDefaultVisit",
           [](const StructuralVisitor& visitor, AnyView value) -> Any {
             return visitor->DefaultVisitExpected(value).value();
           })
      .def("ffi.StructuralVisitorDefRegionKind", DefRegionKindOf<StructuralVisitor>)
      .def("ffi.StructuralVisitorWithDefRegionKind", CallInRegion<StructuralVisitor>);
}

}  // namespace
}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// ffi.StructuralWalk and ffi.StructuralVisit: visits of values by functions of a host language.
#include <tvm/ffi/reflection/registry.h>

#include "structural_engine.h"

namespace graphffi::runtime {
namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::Any;
using ffi::AnyView;
using ffi::Object;

/// What ends a visit.
class InterruptObj : public Object {
 public:
  Any value;

  InterruptObj() = default;
  explicit InterruptObj(Any value) : value(std::move(value)) {}
  static constexpr int32_t _type_index = kTVMFFIVisitInterrupt;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC("ffi.VisitInterrupt", InterruptObj, Object);
};

/// The layout of visitors of any library.
class VisitorObj : public Object {
 public:
  /// Gives None, an interrupt or an error.
  using VisitFunction = TVMFFIAny (*)(VisitorObj* visitor, AnyView value);

  explicit VisitorObj(const VisitFunction* table) : table_(table) {}

  Any Visit(AnyView value) { return Adopt((*table_)(this, value)); }

  Any VisitInside(AnyView value) {
    const TVMFFIAny* hook = ffi::detail::OptTypeAttr("__s_visit__", value.type_index());
    if (hook != nullptr) return CallHook(*hook, value);
    if (value.type_index() < kTVMFFIStaticObjectBegin) return nullptr;
    const auto* object = value.cast<const Object*>();
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(object->type_index());
    RegionScope scope(&region, RegionScope::OfFields(IdentityKind(type), region));
    Any result;
    refl::ForEachFieldInfoWithEarlyStop(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashIgnore) != 0) return false;
      Any item = refl::FieldGetter(field)(object);
      RegionScope inner(&region, RegionScope::OfField(field, region));
      result = Visit(item);
      return result != nullptr;
    });
    return result;
  }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO("ffi.StructuralVisitor", VisitorObj, Object);

 private:
  Any CallHook(const TVMFFIAny& hook, AnyView value) {
    if (hook.type_index == kTVMFFIOpaquePtr) {
      return Adopt(reinterpret_cast<VisitFunction>(hook.v_ptr)(this, value));
    }
    if (hook.type_index == kTVMFFIFunction) {
      return AnyView::CopyFromTVMFFIAny(hook).cast<ffi::Function>()(this, value);
    }
    TVM_FFI_THROW(TypeError) << "__s_visit__: expected a function or a pointer to one";
    TVM_FFI_UNREACHABLE();
  }

  const VisitFunction* table_;

 public:
  TVMFFIDefRegionKind region = kTVMFFIDefRegionKindNone;
};

class Visitor : public ffi::ObjectRef {
 public:
  explicit Visitor(ffi::ObjectPtr<VisitorObj> object) : ffi::ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Visitor, ffi::ObjectRef, VisitorObj);
};

/// Calls functions before or after it visits what is inside a value.
class WalkerObj : public VisitorObj {
 public:
  WalkerObj(Links links, Links with_region, bool post_order)
      : VisitorObj(&kTable),
        links_(std::move(links)),
        with_region_(std::move(with_region)),
        post_order_(post_order) {}

 private:
  static TVMFFIAny Dispatch(VisitorObj* self, AnyView value) {
    if (value == nullptr) return Release(nullptr);
    return Release(RunAt(value, [&] { return static_cast<WalkerObj*>(self)->Walk(value); }));
  }
  static constexpr VisitFunction kTable = Dispatch;

  Any Walk(AnyView value) {
    constexpr int64_t kSkip = 1;
    if (!post_order_) {
      Any said = Ask(value);
      if (auto tag = said.as<int64_t>()) {
        if (*tag == kSkip) return nullptr;
      } else {
        return said;
      }
    }
    Any result = VisitInside(value);
    if (result != nullptr || !post_order_) return result;
    Any said = Ask(value);
    return said.as<int64_t>() ? Any() : said;
  }

  /// An interrupt, or a number: whether to go inside. \throws Error(TypeError)
  Any Ask(AnyView value) {
    std::optional<Any> said = CallLink(links_, with_region_, value, region);
    if (!said.has_value() || *said == nullptr) return 0;
    int32_t index = said->type_index();
    if (index == kTVMFFIInt || index == kTVMFFIVisitInterrupt) return *std::move(said);
    TVM_FFI_THROW(TypeError) << "expected `WalkResult`, got `" << said->GetTypeKey() << "`";
    TVM_FFI_UNREACHABLE();
  }

  Links links_;
  Links with_region_;
  bool post_order_;
};

/// Calls functions, which visit themselves what is inside a value.
class CallingVisitorObj : public VisitorObj {
 public:
  explicit CallingVisitorObj(Links links) : VisitorObj(&kTable), links_(std::move(links)) {}

 private:
  static TVMFFIAny Dispatch(VisitorObj* self, AnyView value) {
    if (value == nullptr) return Release(nullptr);
    auto* visitor = static_cast<CallingVisitorObj*>(self);
    return Release(RunAt(value, [&] { return visitor->Call(value); }));
  }
  static constexpr VisitFunction kTable = Dispatch;

  Any Call(AnyView value) {
    for (const auto& link : links_) {
      if (!IsOfType(value.type_index(), link.get<0>())) continue;
      return link.get<1>()(value, ffi::GetRef<Visitor>(this));
    }
    return VisitInside(value);
  }

  Links links_;
};

Any Walk(AnyView root, const Links& links, const Links& with_region, int32_t order) {
  Visitor walker(ffi::make_object<WalkerObj>(links, with_region, order != 0));
  Any kept = root;  // which the caller may have moved here
  return ValueOrThrow(walker->Visit(kept));
}

Any VisitWith(AnyView root, const Links& links) {
  Visitor visitor(ffi::make_object<CallingVisitorObj>(links));
  Any kept = root;
  return ValueOrThrow(visitor->Visit(kept));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<InterruptObj>(refl::init(false)).def_ro("value", &InterruptObj::value);
  refl::ObjectDef<VisitorObj>(refl::init(false));
  refl::GlobalDef()
      .def("ffi.VisitInterrupt",
           [](Any value) {
             return ffi::ObjectRef(ffi::make_object<InterruptObj>(std::move(value)));
           })
      .def("ffi.StructuralWalk", Walk)
      .def("ffi.StructuralVisit", VisitWith)
      .def(
          "ffi.StructuralVisitorVisit",
          [](const Visitor& visitor, AnyView value) { return ValueOrThrow(visitor->Visit(value)); })
      .def("ffi.StructuralVisitorDefaultVisit",
           [](const Visitor& visitor, AnyView value) {
             return ValueOrThrow(visitor->VisitInside(value));
           })
      .def("ffi.StructuralVisitorDefRegionKind",
           [](const Visitor& visitor) { return static_cast<int32_t>(visitor->region); })
      .def("ffi.StructuralVisitorWithDefRegionKind",
           [](const Visitor& visitor, int32_t kind, const ffi::Function& callback) {
             RegionScope scope(&visitor->region, static_cast<TVMFFIDefRegionKind>(kind));
             return callback();
           });
}

}  // namespace
}  // namespace graphffi::runtime

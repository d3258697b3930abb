// SPDX-License-Identifier: Apache-2.0
// ffi.StructuralEqual and ffi.GetFirstStructuralMismatch.
#include <tvm/ffi/extra/structural_detail.h>
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/registry.h>

#include <cmath>
#include <optional>
#include <unordered_map>
#include <vector>

#include "structural.h"

namespace graphffi::runtime {
namespace {

using ffi::detail::DefRegionScope;
using refl::AccessStep;

class Comparison {
 public:
  Comparison(bool map_free_vars, bool skip_tensor_content)
      : region_(map_free_vars ? kTVMFFIDefRegionKindPattern : kTVMFFIDefRegionKindNone),
        skip_tensor_content_(skip_tensor_content) {}

  bool Equal(const Any& a, const Any& b) {
    StackGuard guard(&depth_);
    int32_t kind = KindOf(a);
    if (kind != KindOf(b)) return false;
    switch (kind) {
      case kTVMFFIFloat: {
        double x = a.cast<double>();
        double y = b.cast<double>();
        // The zeros differ: 1 / x tells them apart.
        return a.same_as(b) || (std::isnan(x) && std::isnan(y));
      }
      case kTVMFFIStr:
      case kTVMFFIBytes:
        return ffi::AnyEqual()(a, b);
      case kTVMFFIBigInt:
        return BigIntBytes(a) == BigIntBytes(b);
      case kTVMFFIArray:
      case kTVMFFIList:
        return EqualItems(Items(a), Items(b));
      case kTVMFFIMap:
      case kTVMFFIDict:
        return EqualEntries(Entries(a), Entries(b));
      case kTVMFFIShape:
        return EqualShapes(a.cast<ffi::Shape>(), b.cast<ffi::Shape>());
      case kTVMFFITensor:
        return EqualTensors(*a.cast<ffi::Tensor>().get(), *b.cast<ffi::Tensor>().get());
      default:
        return kind < kTVMFFIStaticObjectBegin ? a.same_as(b) : EqualObjects(a, b);
    }
  }

  /// Where the last comparison, which was false, ended.
  refl::AccessPathPair Mismatch() const {
    return refl::AccessPathPair(refl::AccessPath::FromSteps(a_steps_.rbegin(), a_steps_.rend()),
                                refl::AccessPath::FromSteps(b_steps_.rbegin(), b_steps_.rend()));
  }

 private:
  bool EqualIn(TVMFFIDefRegionKind region, const Any& a, const Any& b) {
    DefRegionScope scope(&region_, region);
    return Equal(a, b);
  }

  /// Steps are noted from the innermost outwards, while a mismatch is passed on.
  bool Differ(AccessStep a, AccessStep b) {
    a_steps_.push_back(std::move(a));
    b_steps_.push_back(std::move(b));
    return false;
  }

  bool EqualItems(Items a, Items b) {
    int64_t common = std::min(a.size(), b.size());
    for (int64_t i = 0; i < common; ++i) {
      if (!Equal(a[i], b[i])) return Differ(AccessStep::ArrayItem(i), AccessStep::ArrayItem(i));
    }
    if (a.size() == b.size()) return true;
    return a.size() > b.size()
               ? Differ(AccessStep::ArrayItem(common), AccessStep::ArrayItemMissing(common))
               : Differ(AccessStep::ArrayItemMissing(common), AccessStep::ArrayItem(common));
  }

  bool EqualEntries(Entries a, Entries b) {
    for (const auto& [key, value] : a) {
      std::optional<Any> partner = Partner(key, a_to_b_, b_to_a_);
      if (!partner || !b.Has(*partner)) {
        return Differ(AccessStep::MapItem(key), AccessStep::MapItemMissing(key));
      }
      if (!Equal(value, b.at(*partner))) {
        return Differ(AccessStep::MapItem(key), AccessStep::MapItem(*partner));
      }
    }
    if (a.size() == b.size()) return true;
    for (const auto& [key, value] : b) {
      std::optional<Any> partner = Partner(key, b_to_a_, a_to_b_);
      if (!partner || !a.Has(*partner)) {
        return Differ(AccessStep::MapItemMissing(key), AccessStep::MapItem(key));
      }
    }
    return false;  // not reached: a key has one partner at most
  }

  static bool EqualShapes(const ffi::Shape& a, const ffi::Shape& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
  }

  bool EqualTensors(const DLTensor& a, const DLTensor& b) const {
    if (&a == &b) return true;
    if (a.ndim != b.ndim || a.dtype != b.dtype || !std::equal(a.shape, a.shape + a.ndim, b.shape)) {
      return false;
    }
    return skip_tensor_content_ || TensorBytes(a) == TensorBytes(b);
  }

  bool EqualObjects(const Any& a, const Any& b) {
    const Object* x = a.cast<const Object*>();
    const Object* y = b.cast<const Object*>();
    if (a.type_index() == kTVMFFIFunction || a.type_index() == kTVMFFIModule) return x == y;
    switch (CompareKind(a.type_index(), "StructuralEqual")) {
      case kTVMFFISEqHashKindUniqueInstance:
        return x == y;
      case kTVMFFISEqHashKindConstTreeNode:
        return x == y || EqualFields(x, y);
      case kTVMFFISEqHashKindFreeVar: {
        if (auto known = BoundTo(x, y)) return *known;
        if (!EqualFields(x, y) || (x != y && region_ == kTVMFFIDefRegionKindNone)) return false;
        Bind(a, b);
        return true;
      }
      case kTVMFFISEqHashKindDAGNode: {
        if (auto known = BoundTo(x, y)) return *known;
        if (!EqualFields(x, y)) return false;
        Bind(a, b);
        return true;
      }
      default:
        return EqualFields(x, y);
    }
  }

  bool EqualFields(const Object* a, const Object* b) {
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(a->type_index());
    DefRegionScope inside(&region_, ffi::detail::RegionInside(type, region_));
    if (auto own = OwnFunction(ffi::type_attr::kSEqual.name, a->type_index())) {
      return EqualByThemselves(*own, a, b);
    }
    return !refl::ForEachFieldInfoWithEarlyStop(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashIgnore) != 0) return false;
      refl::FieldGetter get(field);
      if (EqualIn(ffi::detail::RegionOf(field, region_), get(a), get(b))) return false;
      return !DifferInField(ffi::String(field->name));
    });
  }

  bool DifferInField(const ffi::String& name) {
    return Differ(AccessStep::Attr(name), AccessStep::Attr(name));
  }

  bool EqualByThemselves(const ffi::Function& own, const Object* a, const Object* b) {
    auto compare = [this](AnyView x, AnyView y, int kind, AnyView name) {
      bool equal = EqualIn(RegionOfHook(kind, region_), x, y);
      if (!equal && name != nullptr) DifferInField(name.cast<ffi::String>());
      return equal;
    };
    return own(a, b, ffi::Function::FromTyped(compare)).cast<bool>();
  }

  /// Whether x and y are bound to each other, if either is bound.
  std::optional<bool> BoundTo(const Object* x, const Object* y) const {
    auto it = a_to_b_.find(x);
    if (it != a_to_b_.end()) return it->second.cast<const Object*>() == y;
    if (b_to_a_.count(y) != 0) return false;
    return std::nullopt;
  }
  void Bind(const Any& a, const Any& b) {
    a_to_b_.emplace(a.cast<const Object*>(), b);
    b_to_a_.emplace(b.cast<const Object*>(), a);
  }

  using Bindings = std::unordered_map<const Object*, Any>;
  /// The key that equals one in the other map; none for the key that another one is bound to there.
  static std::optional<Any> Partner(const Any& key, const Bindings& own, const Bindings& others) {
    const auto* object = key.as<Object>();
    auto it = object == nullptr ? own.end() : own.find(object);
    if (it != own.end()) return it->second;
    return others.count(object) == 0 ? std::optional<Any>(key) : std::nullopt;
  }

  TVMFFIDefRegionKind region_;
  bool skip_tensor_content_;
  int depth_ = 0;
  Bindings a_to_b_;
  Bindings b_to_a_;
  std::vector<AccessStep> a_steps_;
  std::vector<AccessStep> b_steps_;
};

bool StructuralEqual(const Any& a, const Any& b, bool map_free_vars, bool skip_tensor_content) {
  return Comparison(map_free_vars, skip_tensor_content).Equal(a, b);
}

ffi::Optional<refl::AccessPathPair> GetFirstStructuralMismatch(const Any& a, const Any& b,
                                                               bool map_free_vars,
                                                               bool skip_tensor_content) {
  Comparison comparison(map_free_vars, skip_tensor_content);
  if (comparison.Equal(a, b)) return std::nullopt;
  return comparison.Mismatch();
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def("ffi.StructuralEqual", StructuralEqual)
      .def("ffi.GetFirstStructuralMismatch", GetFirstStructuralMismatch);
}

}  // namespace
}  // namespace graphffi::runtime

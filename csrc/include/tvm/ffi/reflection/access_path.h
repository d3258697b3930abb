// SPDX-License-Identifier: Apache-2.0
// AccessPath: where in a structure of objects and containers a value is, e.g. root.body[2].
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace reflection {

/// How a step goes down. The Missing ones name what is not there.
enum class AccessKind : int32_t {
  kAttr = 0,
  kArrayItem = 1,
  kMapItem = 2,
  kAttrMissing = 3,
  kArrayItemMissing = 4,
  kMapItemMissing = 5,
};

class AccessStep;

class AccessStepObj : public Object {
 public:
  AccessKind kind;
  /// The name of a field, the index of an item or the key of an entry.
  Any key;

  AccessStepObj() = default;
  AccessStepObj(AccessKind kind, Any key) : kind(kind), key(std::move(key)) {}
  bool StepEqual(const AccessStep& other) const;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindConstTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("ffi.reflection.AccessStep", AccessStepObj, Object);
};

class AccessStep : public ObjectRef {
 public:
  AccessStep(AccessKind kind, Any key)
      : ObjectRef(make_object<AccessStepObj>(kind, std::move(key))) {}
  static AccessStep Attr(String name) { return {AccessKind::kAttr, std::move(name)}; }
  static AccessStep AttrMissing(String name) { return {AccessKind::kAttrMissing, std::move(name)}; }
  static AccessStep ArrayItem(int64_t index) { return {AccessKind::kArrayItem, index}; }
  static AccessStep ArrayItemMissing(int64_t index) {
    return {AccessKind::kArrayItemMissing, index};
  }
  static AccessStep MapItem(Any key) { return {AccessKind::kMapItem, std::move(key)}; }
  static AccessStep MapItemMissing(Any key = nullptr) {
    return {AccessKind::kMapItemMissing, std::move(key)};
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(AccessStep, ObjectRef, AccessStepObj);
};

class AccessPath;

/// A list of steps, linked from the last one to the root; paths share what they have in common.
class AccessPathObj : public Object {
 public:
  /// An AccessPath; nothing at the root.
  Optional<ObjectRef> parent;
  Optional<AccessStep> step;
  int32_t depth = 0;

  AccessPathObj() = default;
  AccessPathObj(Optional<ObjectRef> parent, Optional<AccessStep> step, int32_t depth)
      : parent(std::move(parent)), step(std::move(step)), depth(depth) {}

  Optional<AccessPath> GetParent() const;
  AccessPath Extend(AccessStep step) const;
  AccessPath Attr(String name) const;
  AccessPath AttrMissing(String name) const;
  AccessPath ArrayItem(int64_t index) const;
  AccessPath ArrayItemMissing(int64_t index) const;
  AccessPath MapItem(Any key) const;
  AccessPath MapItemMissing(Any key) const;
  /// From the root on.
  Array<AccessStep> ToSteps() const;
  bool PathEqual(const AccessPath& other) const;
  bool IsPrefixOf(const AccessPath& other) const;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindConstTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("ffi.reflection.AccessPath", AccessPathObj, Object);

 private:
  /// Null at the root, and above a path whose depth is wrong: objects may be made by reflection.
  const AccessPathObj* OptParent() const {
    return parent.has_value() ? parent.value().as<AccessPathObj>() : nullptr;
  }
  static bool SamePath(const AccessPathObj* a, const AccessPathObj* b);
};

class AccessPath : public ObjectRef {
 public:
  static AccessPath Root() { return AccessPath(make_object<AccessPathObj>()); }
  template <typename Iterator>
  static AccessPath FromSteps(Iterator begin, Iterator end) {
    AccessPath path = Root();
    for (; begin != end; ++begin) path = path->Extend(*begin);
    return path;
  }
  static AccessPath FromSteps(const Array<AccessStep>& steps) {
    return FromSteps(steps.begin(), steps.end());
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(AccessPath, ObjectRef, AccessPathObj);

 private:
  friend class AccessPathObj;
  explicit AccessPath(ObjectPtr<AccessPathObj> data) : ObjectRef(std::move(data)) {}
};

/// The same place in two structures.
using AccessPathPair = Tuple<AccessPath, AccessPath>;

inline bool AccessStepObj::StepEqual(const AccessStep& other) const {
  return kind == other->kind && AnyEqual()(key, other->key);
}

inline Optional<AccessPath> AccessPathObj::GetParent() const {
  const AccessPathObj* found = OptParent();
  if (found == nullptr) return std::nullopt;
  return GetRef<AccessPath>(found);
}
inline AccessPath AccessPathObj::Extend(AccessStep next) const {
  return AccessPath(
      make_object<AccessPathObj>(GetRef<ObjectRef>(this), std::move(next), depth + 1));
}
inline AccessPath AccessPathObj::Attr(String name) const {
  return Extend(AccessStep::Attr(std::move(name)));
}
inline AccessPath AccessPathObj::AttrMissing(String name) const {
  return Extend(AccessStep::AttrMissing(std::move(name)));
}
inline AccessPath AccessPathObj::ArrayItem(int64_t index) const {
  return Extend(AccessStep::ArrayItem(index));
}
inline AccessPath AccessPathObj::ArrayItemMissing(int64_t index) const {
  return Extend(AccessStep::ArrayItemMissing(index));
}
inline AccessPath AccessPathObj::MapItem(Any key) const {
  return Extend(AccessStep::MapItem(std::move(key)));
}
inline AccessPath AccessPathObj::MapItemMissing(Any key) const {
  return Extend(AccessStep::MapItemMissing(std::move(key)));
}
inline Array<AccessStep> AccessPathObj::ToSteps() const {
  std::vector<AccessStep> steps;
  for (const AccessPathObj* path = this; path->OptParent() != nullptr; path = path->OptParent()) {
    steps.push_back(path->step.value());
  }
  std::reverse(steps.begin(), steps.end());
  return Array<AccessStep>(steps.begin(), steps.end());
}
inline bool AccessPathObj::SamePath(const AccessPathObj* a, const AccessPathObj* b) {
  if (a->depth != b->depth) return false;
  while (a != b && a->OptParent() != nullptr) {
    if (b->OptParent() == nullptr || !a->step.value()->StepEqual(b->step.value())) return false;
    a = a->OptParent();
    b = b->OptParent();
  }
  return true;
}
inline bool AccessPathObj::PathEqual(const AccessPath& other) const {
  return SamePath(this, other.get());
}
inline bool AccessPathObj::IsPrefixOf(const AccessPath& other) const {
  const AccessPathObj* path = other.get();
  while (path != nullptr && path->depth > depth) path = path->OptParent();
  return path != nullptr && SamePath(this, path);
}

}  // namespace reflection
}  // namespace graphffi_v1
}  // namespace tvm::ffi

// SPDX-License-Identifier: Apache-2.0
// ffi.VisitErrorContext.FindAccessPaths: where in a structure a visitor was when it failed.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/extra/visit_error_context.h>
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <vector>

#include "runtime/containers/contents.h"
#include "stack_guard.h"

namespace graphffi::runtime {
namespace {

using ffi::ObjectRef;
using refl::AccessPath;

/// Finds the ways from a root along which the noted nodes lie in order, whatever is between them.
class PathFinder {
 public:
  PathFinder(const ffi::VisitErrorContext& context, bool allow_prefix)
      : allow_prefix_(allow_prefix) {
    // A node may have been noted twice in a row: where it failed and where it was left.
    for (const ObjectRef& node : context->reverse_visit_pattern) {
      bool is_new = nodes_.empty() || !node.same_as(nodes_.back());
      if (node.defined() && is_new) nodes_.push_back(node);
    }
    std::reverse(nodes_.begin(), nodes_.end());
  }

  ffi::Array<AccessPath> Find(const ObjectRef& root) && {
    Search(root, AccessPath::Root(), 0);
    return ffi::Array<AccessPath>(paths_.begin(), paths_.end());
  }

 private:
  /// num_met: of the nodes, on the way here. True if paths were found in value.
  bool Search(const Any& value, const AccessPath& path, size_t num_met) {
    const auto* object = value.as<Object>();
    bool is_open = std::find(open_.begin(), open_.end(), object) != open_.end();
    if (object == nullptr || is_open) return false;
    bool is_next = num_met < nodes_.size() && nodes_[num_met].get() == object;
    if (is_next && num_met + 1 == nodes_.size()) {
      paths_.push_back(path);
      return true;
    }
    StackGuard guard(&depth_);
    open_.push_back(object);
    bool found = SearchInside(value, path, num_met + (is_next ? 1 : 0));
    open_.pop_back();
    if (found || !is_next || !allow_prefix_ || path->depth == 0) return found;
    paths_.push_back(path);
    return true;
  }

  bool SearchInside(const Any& value, const AccessPath& path, size_t num_met) {
    switch (value.type_index()) {
      case kTVMFFIArray:
      case kTVMFFIList:
        return SearchItems(Items(value), path, num_met);
      case kTVMFFIMap:
      case kTVMFFIDict:
        return SearchEntries(Entries(value), path, num_met);
      default:
        return SearchFields(value.cast<const Object*>(), path, num_met);
    }
  }

  bool SearchItems(Items items, const AccessPath& path, size_t num_met) {
    bool found = false;
    for (int64_t i = 0; i < items.size(); ++i) {
      Any item = items[i];
      if (IsObject(item)) found |= Search(item, path->ArrayItem(i), num_met);
    }
    return found;
  }
  bool SearchEntries(Entries entries, const AccessPath& path, size_t num_met) {
    bool found = false;
    for (const auto& [key, value] : entries) {
      if (IsObject(value)) found |= Search(value, path->MapItem(key), num_met);
    }
    return found;
  }
  bool SearchFields(const Object* object, const AccessPath& path, size_t num_met) {
    bool found = false;
    refl::ForEachFieldInfo(TVMFFIGetTypeInfo(object->type_index()),
                           [&](const TVMFFIFieldInfo* field) {
                             Any value = refl::FieldGetter(field)(object);
                             if (!IsObject(value)) return;
                             found |= Search(value, path->Attr(ffi::String(field->name)), num_met);
                           });
    return found;
  }
  static bool IsObject(const Any& value) { return value.type_index() >= kTVMFFIStaticObjectBegin; }

  bool allow_prefix_;
  std::vector<ObjectRef> nodes_;  // From the outermost inwards.
  std::vector<const Object*> open_;
  std::vector<AccessPath> paths_;
  int depth_ = 0;
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<ffi::VisitErrorContextObj>()
      .def_ro("reverse_visit_pattern", &ffi::VisitErrorContextObj::reverse_visit_pattern)
      .def_ro("prev_error_context", &ffi::VisitErrorContextObj::prev_error_context);
  refl::GlobalDef().def(
      "ffi.VisitErrorContext.FindAccessPaths",
      [](const ObjectRef& root, const ffi::VisitErrorContext& context, bool allow_prefix_match) {
        return PathFinder(context, allow_prefix_match).Find(root);
      });
}

}  // namespace
}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// Imports of modules and look-up through them. One lock guards the import lists and look-up caches
// of all modules; no function of a module is called while it is held.
#include "module.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <mutex>
#include <unordered_set>
#include <vector>

#include "runtime/containers/containers.h"
#include "runtime/core/error.h"
#include "runtime/core/fork.h"
#include "runtime/core/function.h"
#include "runtime/core/function_registry.h"
#include "runtime/core/string_value.h"

namespace graphffi::runtime {
namespace {

struct ImportsTable {
  std::mutex mutex;
};

std::mutex& imports_mutex = TheTable<ImportsTable>().mutex;

std::vector<ModulePtr> ImportsOf(ModuleObj* module) {
  std::lock_guard lock(imports_mutex);
  std::vector<ModulePtr> imports;
  for (const Any& import : ItemsOf(module->imports_.object.get())) {
    imports.emplace_back(ObjectPtr<>::Share(import.view().v_obj));
  }
  return imports;
}

/// Asks the module and what it imports, depth first, each module once: where imports share their
/// own imports, the number of paths doubles at every level.
template <typename Found>
ModulePtr FindModule(ModuleObj* module, bool query_imports, const Found& found) {
  if (found(module)) return ModulePtr::Share(module);
  if (!query_imports) return {};
  std::unordered_set<ModuleObj*> asked = {module};
  std::vector<ModulePtr> pending;
  auto push_imports = [&pending](ModuleObj* of) {
    std::vector<ModulePtr> imports = ImportsOf(of);
    pending.insert(pending.end(), imports.rbegin(), imports.rend());
  };
  for (push_imports(module); !pending.empty();) {
    ModulePtr next = std::move(pending.back());
    pending.pop_back();
    if (!asked.insert(next.get()).second) continue;
    if (found(next.get())) return next;
    push_imports(next.get());
  }
  return {};
}

bool Imports(ModuleObj* module, ModuleObj* wanted) {
  return static_cast<bool>(
      FindModule(module, true, [wanted](ModuleObj* imported) { return imported == wanted; }));
}

ObjectPtr<> FindCached(ModuleObj* module, const TVMFFIAny& name) {
  std::lock_guard lock(imports_mutex);
  const TVMFFIAny* found = FindInMap(module->import_lookup_cache_.object.get(), name);
  return found == nullptr ? ObjectPtr<>() : ObjectPtr<>::Share(found->v_obj);
}

/// Keeps the function for the rest of the module's life. Another thread may have been first; its
/// function then stays, and is what the caller gets.
ObjectPtr<> Cache(ModuleObj* module, const Any& name, const ObjectPtr<>& function) {
  ObjectPtr<> replaced;  // Dies after the lock.
  std::lock_guard lock(imports_mutex);
  ObjectPtr<>& slot = module->import_lookup_cache_.object;
  if (const TVMFFIAny* found = FindInMap(slot.get(), name.view())) {
    return ObjectPtr<>::Share(found->v_obj);
  }
  replaced = std::exchange(slot, MapWith(slot.get(), name, Any::Object(function)));
  return function;
}

ObjectPtr<> LookupFromImports(ModuleObj* module, std::string_view name) {
  const Any key = MakeString(name);
  if (ObjectPtr<> cached = FindCached(module, key.view())) return cached;
  ObjectPtr<> function;
  for (const ModulePtr& import : ImportsOf(module)) {
    function = FindFunction(import.handle().get(), key.view(), true);
    if (function) break;
  }
  if (!function) function = FindGlobalFunction(name);
  if (!function) {
    Throw("RuntimeError", "graphffi: function '", name,
          "': neither imported by the module nor registered globally");
  }
  return Cache(module, key, function);
}

}  // namespace

void AddImport(ModuleObj* module, ModuleObj* other) {
  if (Imports(other, module)) {
    Throw("RuntimeError", "graphffi: import of a module of kind '", other->kind(),
          "': it imports the importing module");
  }
  Any added = Any::Object(ModulePtr::Share(other).handle());
  ObjectPtr<> replaced;  // Dies after the lock.
  std::lock_guard lock(imports_mutex);
  std::vector<Any> imports = ItemsOf(module->imports_.object.get());
  imports.push_back(std::move(added));
  replaced = std::exchange(module->imports_.object, MakeArray(std::move(imports)));
}

void RemoveImports(ModuleObj* module) {
  ObjectPtr<> imports;
  ObjectPtr<> cache;
  std::lock_guard lock(imports_mutex);
  std::swap(module->imports_.object, imports);
  std::swap(module->import_lookup_cache_.object, cache);
}

ObjectPtr<> FindFunction(TVMFFIObject* module, const TVMFFIAny& name, bool query_imports) {
  const tvm::ffi::String text{Any::FromView(name)};
  ObjectPtr<> function;
  FindModule(ModuleFromHandle(module), query_imports, [&](ModuleObj* asked) {
    function = asked->GetFunction(text).object;
    return static_cast<bool>(function);
  });
  return function;
}

ObjectPtr<> FindImplementer(TVMFFIObject* module, const TVMFFIAny& name, bool query_imports) {
  const tvm::ffi::String text{Any::FromView(name)};
  return FindModule(ModuleFromHandle(module), query_imports,
                    [&](ModuleObj* asked) { return asked->ImplementsFunction(text); })
      .handle();
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx, const char* func_name,
                                  TVMFFIObjectHandle* out) {
  return Guard([&] {
    if (library_ctx == nullptr) {
      Throw("RuntimeError", "graphffi: function '", func_name,
            "': the calling library was not loaded as a module");
    }
    // The module's cache keeps the function alive.
    *out = LookupFromImports(static_cast<ModuleObj*>(library_ctx), func_name).get();
  });
}

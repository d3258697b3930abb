// SPDX-License-Identifier: Apache-2.0
// Modules of any library: their functions, their imports, loading them.
#pragma once

#include "find_module.h"
#include "module_object.h"

namespace graphffi::runtime {

/// Owns one reference to a module, whose handle is not its address.
class ModulePtr {
 public:
  ModulePtr() = default;
  explicit ModulePtr(ObjectPtr<> handle) : handle_(std::move(handle)) {}
  static ModulePtr Share(ModuleObj* module) {
    return ModulePtr(ObjectPtr<>::Share(HandleOfModule(module)));
  }

  ModuleObj* get() const { return ModuleFromHandle(handle_.get()); }
  ModuleObj* operator->() const { return get(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }
  const ObjectPtr<>& handle() const { return handle_; }

 private:
  ObjectPtr<> handle_;
};

/// \throws Error(RuntimeError) on a cycle.
void AddImport(ModuleObj* module, ModuleObj* other);
void RemoveImports(ModuleObj* module);

}  // namespace graphffi::runtime

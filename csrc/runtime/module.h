// SPDX-License-Identifier: Apache-2.0
// Modules of any library: their functions, their imports, loading them.
#pragma once

#include <string>
#include <string_view>

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

/// The function of the module or, if asked, of its imports, depth first; empty if there is none.
ObjectPtr<> FindFunction(ModuleObj* module, const tvm::ffi::String& name, bool query_imports);
/// The module that has the function; empty if there is none.
ModulePtr FindImplementer(ModuleObj* module, const tvm::ffi::String& name, bool query_imports);

/// Loads by the file's extension. \throws Error(RuntimeError)
Any LoadModule(std::string_view path);
/// Opens a shared library; the same library gives the same module.
ModulePtr LoadLibraryModule(const std::string& path);
/// The module of the functions that are linked into the process with that prefix.
ModulePtr SystemLibraryModule(const std::string& prefix);

}  // namespace graphffi::runtime

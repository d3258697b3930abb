// SPDX-License-Identifier: Apache-2.0
// Global functions about modules.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "on_headers.h"
#include "runtime/core/error.h"
#include "runtime/core/fork.h"
#include "runtime/modules/find_module.h"

namespace graphffi::runtime {
namespace {

using ffi::Module;
using ffi::ModuleObj;
using ffi::Optional;
using ffi::String;

/// Runs what may throw errors of the runtime, or those of TVM FFI's C++ ABI, as modules of other
/// libraries do: they become errors of the headers.
template <typename Body>
auto Run(Body&& body) {
  try {
    return body();
  } catch (const ffi::Error&) {
    throw;
  } catch (...) {
    ffi::detail::ThrowSafeCallRaised(RaiseCurrentException());
  }
}

template <typename T>
ffi::ObjectPtr<T> ToHeaders(ObjectPtr<> object) {
  return ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<T>(object.Release());
}

using Finder = ObjectPtr<>(TVMFFIObject* module, const TVMFFIAny& name, bool query_imports);

/// NULL where `find` finds nothing.
template <typename T>
ffi::ObjectPtr<T> Find(Finder* find, const Module& module, const String& name, bool query_imports) {
  return Run([&] {
    return ToHeaders<T>(find(ffi::detail::ObjectUnsafe::GetHeader(module.get()),
                             AnyView(name).CopyToTVMFFIAny(), query_imports));
  });
}

Optional<ffi::Function> GetFunction(const Module& module, const String& name, bool query_imports) {
  auto found = Find<ffi::FunctionObj>(&FindFunction, module, name, query_imports);
  if (found == nullptr) return std::nullopt;
  return ffi::Function(std::move(found));
}

bool ImplementsFunction(const Module& module, const String& name, bool query_imports) {
  return Find<ModuleObj>(&FindImplementer, module, name, query_imports) != nullptr;
}

Optional<String> GetFunctionMetadata(const Module& module, const String& name, bool query_imports) {
  const auto found = Find<ModuleObj>(&FindImplementer, module, name, query_imports);
  if (found == nullptr) return std::nullopt;
  return Run([&] { return found->GetFunctionMetadata(name); });
}

Optional<String> GetFunctionDoc(const Module& module, const String& name, bool query_imports) {
  const auto found = Find<ModuleObj>(&FindImplementer, module, name, query_imports);
  if (found == nullptr) return std::nullopt;
  return Run([&] { return found->GetFunctionDoc(name); });
}

String GetKind(const Module& module) { return module->kind(); }
int64_t GetPropertyMask(const Module& module) { return module->GetPropertyMask(); }
void ImportModule(const Module& module, const Module& imported) {
  Run([&] { module.get()->ImportModule(imported); });
}
void ClearImports(const Module& module) {
  Run([&] { module.get()->ClearImports(); });
}
String InspectSource(const Module& module, const String& format) {
  return Run([&] { return module->InspectSource(format); });
}
ffi::Array<String> GetWriteFormats(const Module& module) {
  return Run([&] { return module->GetWriteFormats(); });
}
void WriteToFile(const Module& module, const String& file_name, const String& format) {
  Run([&] { module->WriteToFile(file_name, format); });
}

Module LoadFromFile(const String& path) {
  const std::string_view name = path;
  const size_t dot = name.rfind('.'), slash = name.rfind('/');
  if (dot == std::string_view::npos || (slash != std::string_view::npos && dot < slash)) {
    TVM_FFI_THROW(RuntimeError) << "graphffi: cannot load '" << name
                                << "': expected a file name with an extension";
  }
  std::string format(name.substr(dot + 1));
  if (format == "dll" || format == "dylib" || format == "dso") format = "so";
  const std::string loader_name = "ffi.Module.load_from_file." + format;
  const auto loader = ffi::Function::GetGlobal(loader_name);
  if (!loader.has_value()) {
    TVM_FFI_THROW(RuntimeError) << "graphffi: cannot load '" << name << "': no global function "
                                << loader_name << " loads such files";
  }
  return (*loader)(path, format).cast<Module>();
}

Module LoadLibrary(const String& path, const String& /*format*/) {
  return Run([&] { return Module(ToHeaders<ModuleObj>(LoadLibraryModule(path))); });
}

/// an optional prefix
void GetSystemLibrary(ffi::PackedArgs args, Any* result) {
  if (args.size() > 1) {
    TVM_FFI_THROW(TypeError) << "ffi.SystemLib: arguments: expected 0 or 1, got " << args.size();
  }
  const std::string prefix = args.size() == 0 ? "" : args[0].cast<std::string>();
  *result = Run([&] { return Module(ToHeaders<ModuleObj>(SystemLibraryModule(prefix))); });
}

/// Modules that are kept for whoever may still use what they made.
struct KeptModules {
  std::mutex mutex;
  std::map<const ModuleObj*, Module> modules;
};

KeptModules& kept = TheTable<KeptModules>();

void KeepModule(const Module& module) {
  std::lock_guard lock(kept.mutex);
  kept.modules.emplace(module.get(), module);
}

void ForgetModule(const Module& module) {
  std::map<const ModuleObj*, Module>::node_type forgotten;  // Dies after the lock.
  std::lock_guard lock(kept.mutex);
  forgotten = kept.modules.extract(module.get());
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def("ffi.ModuleGlobalsAdd", &KeepModule)
      .def("ffi.ModuleGlobalsRemove", &ForgetModule)
      .def("ffi.ModuleLoadFromFile", &LoadFromFile)
      .def("ffi.Module.load_from_file.so", &LoadLibrary)
      .def_packed("ffi.SystemLib", &GetSystemLibrary)
      .def("ffi.ModuleGetFunction", &GetFunction)
      .def("ffi.ModuleImplementsFunction", &ImplementsFunction)
      .def("ffi.ModuleGetFunctionMetadata", &GetFunctionMetadata)
      .def("ffi.ModuleGetFunctionDoc", &GetFunctionDoc)
      .def("ffi.ModuleGetKind", &GetKind)
      .def("ffi.ModuleGetPropertyMask", &GetPropertyMask)
      .def("ffi.ModuleImportModule", &ImportModule)
      .def("ffi.ModuleClearImports", &ClearImports)
      .def("ffi.ModuleInspectSource", &InspectSource)
      .def("ffi.ModuleGetWriteFormats", &GetWriteFormats)
      .def("ffi.ModuleWriteToFile", &WriteToFile);
}

}  // namespace
}  // namespace graphffi::runtime

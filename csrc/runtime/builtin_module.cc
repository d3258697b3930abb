// SPDX-License-Identifier: Apache-2.0
// Built-in functions about modules.
#include <iterator>
#include <map>
#include <mutex>

#include "builtin.h"
#include "error.h"
#include "module.h"
#include "string_value.h"

namespace graphffi::runtime {
namespace {

ModuleObj* Module(const BuiltinArgs& args, int32_t index = 0) {
  return ModuleFromHandle(args.Object(index, kTVMFFIModule));
}

tvm::ffi::String Text(const BuiltinArgs& args, int32_t index) {
  return {MakeString(args.Text(index))};
}

Any GetFunction(const BuiltinArgs& args) {
  return Any::Object(FindFunction(Module(args), Text(args, 1), args.Bool(2)));
}

Any ImplementsFunction(const BuiltinArgs& args) {
  return Any::Bool(static_cast<bool>(FindImplementer(Module(args), Text(args, 1), args.Bool(2))));
}

Any GetFunctionMetadata(const BuiltinArgs& args) {
  ModulePtr module = FindImplementer(Module(args), Text(args, 1), args.Bool(2));
  return module ? module->GetFunctionMetadata(Text(args, 1)).value : Any();
}

Any GetFunctionDoc(const BuiltinArgs& args) {
  ModulePtr module = FindImplementer(Module(args), Text(args, 1), args.Bool(2));
  return module ? module->GetFunctionDoc(Text(args, 1)).value : Any();
}

Any ImportModule(const BuiltinArgs& args) {
  ModuleObj* imported = Module(args, 1);
  Module(args)->ImportModule(tvm::ffi::Module{ObjectPtr<>::Share(HandleOfModule(imported))});
  return {};
}

Any WriteToFile(const BuiltinArgs& args) {
  Module(args)->WriteToFile(Text(args, 1), Text(args, 2));
  return {};
}

/// path, format; the format is "so"
Any LoadLibrary(const BuiltinArgs& args) {
  args.ExpectSize(1, 2);
  return Any::Object(LoadLibraryModule(std::string(args.Text(0))).handle());
}

/// an optional prefix
Any GetSystemLibrary(const BuiltinArgs& args) {
  args.ExpectSize(0, 1);
  std::string prefix = args.size() == 0 ? std::string() : std::string(args.Text(0));
  return Any::Object(SystemLibraryModule(prefix).handle());
}

/// Modules that are kept for whoever may still use what they made.
struct KeptModules {
  std::mutex mutex;
  std::map<ModuleObj*, ModulePtr> modules;

  static KeptModules& Global() {
    static KeptModules* kept = new KeptModules();
    return *kept;
  }
};

Any KeepModule(const BuiltinArgs& args) {
  ModulePtr module = ModulePtr::Share(Module(args));
  KeptModules& kept = KeptModules::Global();
  std::lock_guard lock(kept.mutex);
  kept.modules.emplace(module.get(), module);
  return {};
}

Any ForgetModule(const BuiltinArgs& args) {
  ModulePtr module = ModulePtr::Share(Module(args));
  KeptModules& kept = KeptModules::Global();
  std::lock_guard lock(kept.mutex);
  kept.modules.erase(module.get());
  return {};
}

constexpr Builtin kModuleBuiltins[] = {
    {"ffi.ModuleGlobalsAdd", 1, "None(ffi.Module)", KeepModule},
    {"ffi.ModuleGlobalsRemove", 1, "None(ffi.Module)", ForgetModule},
    {"ffi.ModuleLoadFromFile", 1, "ffi.Module(ffi.String)",
     [](const BuiltinArgs& args) { return LoadModule(args.Text(0)); }},
    {"ffi.Module.load_from_file.so", -1, "ffi.Module(ffi.String,ffi.String)", LoadLibrary},
    {"ffi.SystemLib", -1, "ffi.Function", GetSystemLibrary},
    {"ffi.ModuleGetKind", 1, "ffi.String(ffi.Module)",
     [](const BuiltinArgs& args) { return MakeString(Module(args)->kind()); }},
    {"ffi.ModuleGetPropertyMask", 1, "int(ffi.Module)",
     [](const BuiltinArgs& args) { return Any::Int(Module(args)->GetPropertyMask()); }},
    {"ffi.ModuleGetFunction", 3, "Optional[ffi.Function](ffi.Module,ffi.String,bool)", GetFunction},
    {"ffi.ModuleImplementsFunction", 3, "bool(ffi.Module,ffi.String,bool)", ImplementsFunction},
    {"ffi.ModuleGetFunctionMetadata", 3, "Optional[ffi.String](ffi.Module,ffi.String,bool)",
     GetFunctionMetadata},
    {"ffi.ModuleGetFunctionDoc", 3, "Optional[ffi.String](ffi.Module,ffi.String,bool)",
     GetFunctionDoc},
    {"ffi.ModuleImportModule", 2, "None(ffi.Module,ffi.Module)", ImportModule},
    {"ffi.ModuleClearImports", 1, "None(ffi.Module)",
     [](const BuiltinArgs& args) {
       Module(args)->ClearImports();
       return Any();
     }},
    {"ffi.ModuleInspectSource", 2, "ffi.String(ffi.Module,ffi.String)",
     [](const BuiltinArgs& args) { return Module(args)->InspectSource(Text(args, 1)).value; }},
    {"ffi.ModuleGetWriteFormats", 1, "ffi.Array[ffi.String](ffi.Module)",
     [](const BuiltinArgs& args) { return Any::Object(Module(args)->GetWriteFormats().object); }},
    {"ffi.ModuleWriteToFile", 3, "None(ffi.Module,ffi.String,ffi.String)", WriteToFile},
};

}  // namespace

BuiltinTable ModuleBuiltins() { return {kModuleBuiltins, std::size(kModuleBuiltins)}; }

}  // namespace graphffi::runtime

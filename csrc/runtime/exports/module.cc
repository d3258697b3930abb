// SPDX-License-Identifier: Apache-2.0
// Functions of TVM FFI's C++ ABI about modules, but for the virtual ones.
#include "runtime/core/function.h"
#include "runtime/core/function_registry.h"
#include "runtime/core/string_value.h"
#include "runtime/exports/signatures.h"
#include "runtime/modules/library.h"

namespace tvm::ffi {

namespace rt = graphffi::runtime;

Function ModuleObj::GetFunction(const String& name, bool query_imports) {
  return rt::RunForCpp(
      [&] { return Function{rt::FindFunction(&header_, name.value.view(), query_imports)}; });
}

bool ModuleObj::ImplementsFunction(const String& name, bool query_imports) {
  return rt::RunForCpp([&] {
    return static_cast<bool>(rt::FindImplementer(&header_, name.value.view(), query_imports));
  });
}

String ModuleObj::GetFunctionDoc(const String& name, bool query_imports) {
  return rt::RunForCpp([&] {
    const rt::ModulePtr module(rt::FindImplementer(&header_, name.value.view(), query_imports));
    return module ? module->GetFunctionDoc(name) : String{};
  });
}

String ModuleObj::GetFunctionMetadata(const String& name, bool query_imports) {
  return rt::RunForCpp([&] {
    const rt::ModulePtr module(rt::FindImplementer(&header_, name.value.view(), query_imports));
    return module ? module->GetFunctionMetadata(name) : String{};
  });
}

Module Module::LoadFromFile(const String& file_name) {
  return rt::RunForCpp([&] {
    const rt::ObjectPtr<> load = rt::FindGlobalFunction("ffi.ModuleLoadFromFile");
    rt::Any module = rt::CallFunction(load.get(), {file_name.value.view()});
    return Module{rt::ObjectPtr<>::Steal(module.Release().v_obj)};
  });
}

void Module::VisitContextSymbols(const TypedFunction<void(String, void*)>& callback) {
  rt::RunForCpp([&] {
    for (const auto& [name, pointer] : rt::ContextSymbols()) {
      rt::CallFunction(callback.function.object.get(),
                       {rt::MakeString(name).view(), rt::Any::Pointer(pointer).view()});
    }
  });
}

}  // namespace tvm::ffi

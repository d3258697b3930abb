// SPDX-License-Identifier: Apache-2.0
// Functions of TVM FFI's C++ ABI about modules, but for the virtual ones.
#include "exports/signatures.h"
#include "runtime/function.h"
#include "runtime/library.h"
#include "runtime/string_value.h"

namespace tvm::ffi {

namespace rt = graphffi::runtime;

Function ModuleObj::GetFunction(const String& name, bool query_imports) {
  return rt::RunForCpp([&] { return Function{rt::FindFunction(this, name, query_imports)}; });
}

bool ModuleObj::ImplementsFunction(const String& name, bool query_imports) {
  return rt::RunForCpp(
      [&] { return static_cast<bool>(rt::FindImplementer(this, name, query_imports)); });
}

String ModuleObj::GetFunctionDoc(const String& name, bool query_imports) {
  return rt::RunForCpp([&] {
    rt::ModulePtr module = rt::FindImplementer(this, name, query_imports);
    return module ? module->GetFunctionDoc(name) : String{};
  });
}

String ModuleObj::GetFunctionMetadata(const String& name, bool query_imports) {
  return rt::RunForCpp([&] {
    rt::ModulePtr module = rt::FindImplementer(this, name, query_imports);
    return module ? module->GetFunctionMetadata(name) : String{};
  });
}

Module Module::LoadFromFile(const String& file_name) {
  return rt::RunForCpp([&] {
    rt::Any module = rt::LoadModule(*rt::TryText(file_name.value.view()));
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

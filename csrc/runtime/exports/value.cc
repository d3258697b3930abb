// SPDX-License-Identifier: Apache-2.0
// Functions of TVM FFI's C++ ABI about values: each forwards to the global function that does it.
#include <initializer_list>

#include "runtime/core/function.h"
#include "runtime/core/function_registry.h"
#include "runtime/core/string_value.h"
#include "runtime/exports/signatures.h"
#include "runtime/modules/library.h"

namespace tvm::ffi {
namespace {

namespace rt = graphffi::runtime;

TVMFFIAny View(const Any& value) { return value.value.view(); }
TVMFFIAny View(const ObjectRef& object) {
  return rt::Any::Object(object.object()).view();  // borrowed: the caller keeps the object
}
TVMFFIAny View(const String& text) { return text.value.view(); }
TVMFFIAny View(ModuleObj* module) {
  TVMFFIAny view = rt::kNone;
  view.type_index = kTVMFFIModule;
  view.v_obj = &module->header_;
  return view;
}
TVMFFIAny View(bool flag) { return rt::Any::Bool(flag).view(); }

/// \throws tvm::ffi::Error
rt::Any Call(const char* name, std::initializer_list<TVMFFIAny> args) {
  return rt::RunForCpp([&] {
    rt::ObjectPtr<> function = rt::FindGlobalFunction(name);
    if (!function) rt::Throw("RuntimeError", "graphffi: no global function '", name, "'");
    return rt::CallFunction(function.get(), args);
  });
}

bool CallBool(const char* name, std::initializer_list<TVMFFIAny> args) {
  return Call(name, args).view().v_int64 != 0;
}

/// NULL for None.
rt::ObjectPtr<> CallObject(const char* name, std::initializer_list<TVMFFIAny> args) {
  TVMFFIAny result = Call(name, args).Release();
  return rt::ObjectPtr<>::Steal(rt::HoldsObject(result) ? result.v_obj : nullptr);
}

}  // namespace

namespace json {

Any Parse(const String& text, String* opt_error) {
  if (opt_error == nullptr) return {Call("ffi.json.Parse", {View(text)})};
  *opt_error = {rt::MakeString({})};
  try {
    return {Call("ffi.json.Parse", {View(text)})};
  } catch (const Error& error) {
    *opt_error = {rt::MakeString(error.what())};
    return {};
  }
}

String Stringify(const Any& value, const Optional<int>& indent) {
  return {Call("ffi.json.Stringify", {View(value), indent.value.view()})};
}

}  // namespace json

String ReprPrint(const Any& value) { return {Call("ffi.ReprPrint", {View(value)})}; }
Any DeepCopy(const Any& value) { return {Call("ffi.DeepCopy", {View(value)})}; }
int64_t RecursiveHash(const Any& value) {
  return Call("ffi.RecursiveHash", {View(value)}).view().v_int64;
}
bool RecursiveEq(const Any& a, const Any& b) {
  return CallBool("ffi.RecursiveEq", {View(a), View(b)});
}
bool RecursiveLt(const Any& a, const Any& b) {
  return CallBool("ffi.RecursiveLt", {View(a), View(b)});
}
bool RecursiveLe(const Any& a, const Any& b) {
  return CallBool("ffi.RecursiveLe", {View(a), View(b)});
}
bool RecursiveGt(const Any& a, const Any& b) {
  return CallBool("ffi.RecursiveGt", {View(a), View(b)});
}
bool RecursiveGe(const Any& a, const Any& b) {
  return CallBool("ffi.RecursiveGe", {View(a), View(b)});
}
Any ToJSONGraph(const Any& value, const Any& metadata) {
  return {Call("ffi.ToJSONGraph", {View(value), View(metadata)})};
}
Any FromJSONGraph(const Any& graph) { return {Call("ffi.FromJSONGraph", {View(graph)})}; }

bool StructuralEqual::Equal(const Any& a, const Any& b, bool map_free_vars,
                            bool skip_tensor_content) {
  return CallBool("ffi.StructuralEqual",
                  {View(a), View(b), View(map_free_vars), View(skip_tensor_content)});
}

Array StructuralEqual::GetFirstMismatch(const Any& a, const Any& b, bool map_free_vars,
                                        bool skip_tensor_content) {
  return {CallObject("ffi.GetFirstStructuralMismatch",
                     {View(a), View(b), View(map_free_vars), View(skip_tensor_content)})};
}

uint64_t StructuralHash::Hash(const Any& value, bool map_free_vars, bool skip_tensor_content) {
  return Call("ffi.StructuralHash", {View(value), View(map_free_vars), View(skip_tensor_content)})
      .view()
      .v_uint64;
}

Array VisitErrorContext::FindAccessPaths(const ObjectRef& root, const VisitErrorContext& context,
                                         bool allow_prefix_match) {
  return {CallObject("ffi.VisitErrorContext.FindAccessPaths",
                     {View(root), View(context), View(allow_prefix_match)})};
}

Function ModuleObj::GetFunction(const String& name, bool query_imports) {
  return {CallObject("ffi.ModuleGetFunction", {View(this), View(name), View(query_imports)})};
}
bool ModuleObj::ImplementsFunction(const String& name, bool query_imports) {
  return CallBool("ffi.ModuleImplementsFunction", {View(this), View(name), View(query_imports)});
}
String ModuleObj::GetFunctionDoc(const String& name, bool query_imports) {
  return {Call("ffi.ModuleGetFunctionDoc", {View(this), View(name), View(query_imports)})};
}
String ModuleObj::GetFunctionMetadata(const String& name, bool query_imports) {
  return {Call("ffi.ModuleGetFunctionMetadata", {View(this), View(name), View(query_imports)})};
}

Module Module::LoadFromFile(const String& file_name) {
  return {CallObject("ffi.ModuleLoadFromFile", {View(file_name)})};
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

// SPDX-License-Identifier: Apache-2.0
// Built-in functions about global functions and types.
#include <iterator>
#include <string>
#include <vector>

#include "builtin.h"
#include "containers.h"
#include "error.h"
#include "function.h"
#include "function_registry.h"
#include "string_value.h"
#include "type_registry.h"

namespace graphffi::runtime {
namespace {

using Names = std::vector<std::string>;

/// A snapshot of names: -1 gives their number, i the name at i.
int CallNames(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return Guard([&] {
    const auto& names = *static_cast<const Names*>(self);
    BuiltinArgs view("ffi.FunctionListGlobalNamesFunctor", args, num_args);
    view.ExpectSize(1, 1);
    auto size = static_cast<int64_t>(names.size());
    int64_t index = view.Int(0);
    if (index < -1 || index >= size) {
      Throw("IndexError", view.function(), ": expected an index below ", size, ", got ", index);
    }
    *result = (index == -1 ? Any::Int(size) : MakeString(names[index])).Release();
  });
}

Any ListGlobalNames(const BuiltinArgs&) {
  auto* names = new Names(ListGlobalFunctions());
  return Any::Object(
      MakeFunction(names, CallNames, [](void* self) { delete static_cast<Names*>(self); }));
}

Any GetMetadata(const BuiltinArgs& args) {
  if (auto metadata = FindGlobalFunctionMetadata(args.Text(0))) return MakeString(*metadata);
  Throw("RuntimeError", args.function(), ": no global function '", args.Text(0), "'");
}

Any GetTypeKeys(const BuiltinArgs&) {
  std::vector<Any> keys;
  for (std::string_view key : ListTypeKeys()) keys.push_back(MakeString(key));
  return Any::Object(MakeArray(std::move(keys)));
}

void* Pointer(const BuiltinArgs& args, int32_t index) {
  if (args[index].type_index == kTVMFFINone) return nullptr;
  if (args[index].type_index == kTVMFFIOpaquePtr) return args[index].v_ptr;
  Throw("TypeError", args.function(), ": argument ", index, ": expected a pointer");
}

/// self, safe_call, deleter
Any FunctionFromExternC(const BuiltinArgs& args) {
  return Any::Object(MakeFunction(Pointer(args, 0),
                                  reinterpret_cast<TVMFFISafeCallType>(Pointer(args, 1)),
                                  reinterpret_cast<void (*)(void*)>(Pointer(args, 2))));
}

/// The address of a std::atomic<uint64_t>, for callers that keep what they found.
Any GetRegistryEpoch(const BuiltinArgs&) { return Any::Pointer(&RegistryEpoch()); }

constexpr Builtin kFunctionBuiltins[] = {
    {"ffi.FunctionListGlobalNamesFunctor", 0, "ffi.Function()", ListGlobalNames},
    {"ffi.FunctionRemoveGlobal", 1, "bool(ffi.String)",
     [](const BuiltinArgs& args) { return Any::Bool(RemoveGlobalFunction(args.Text(0))); }},
    {"ffi.FunctionFromExternC", 3, "ffi.Function(void*,void*,void*)", FunctionFromExternC},
    {"ffi.GetGlobalFuncMetadata", 1, "ffi.String(ffi.String)", GetMetadata},
    {"ffi.GetRegisteredTypeKeys", 0, "ffi.Array[ffi.String]()", GetTypeKeys},
    {"graphffi.registry_epoch", 0, "void*()", GetRegistryEpoch},
};

}  // namespace

BuiltinTable FunctionBuiltins() { return {kFunctionBuiltins, std::size(kFunctionBuiltins)}; }

}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// Global functions about global functions and types.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <string>

#include "on_headers.h"
#include "runtime/core/find_type.h"
#include "runtime/core/function_registry.h"

namespace graphffi::runtime {
namespace {

using ffi::Function;
using ffi::String;

/// A snapshot of names: -1 gives their number, i the name at i.
Function ListGlobalNames() {
  auto get = [names = ListGlobalFunctions()](int64_t index) -> Any {
    const auto size = static_cast<int64_t>(names.size());
    if (index < -1 || index >= size) {
      TVM_FFI_THROW(IndexError) << "ffi.FunctionListGlobalNamesFunctor: expected an index below "
                                << size << ", got " << index;
    }
    if (index == -1) return size;
    return String(names[static_cast<size_t>(index)]);
  };
  return Function::FromTyped(get, "ffi.FunctionListGlobalNamesFunctor");
}

String GetMetadata(const String& name) {
  if (auto metadata = FindGlobalFunctionMetadata(name)) return *metadata;
  TVM_FFI_THROW(RuntimeError) << "ffi.GetGlobalFuncMetadata: no global function '" << name << "'";
  TVM_FFI_UNREACHABLE();
}

ffi::Array<String> GetTypeKeys() {
  ffi::Array<String> keys;
  for (std::string_view key : ListTypeKeys()) keys.push_back(String(key));
  return keys;
}

Function FunctionFromExternC(void* self, void* safe_call, void* deleter) {
  TVMFFIObjectHandle function = nullptr;
  TVM_FFI_CHECK_SAFE_CALL(
      TVMFFIFunctionCreate(self, reinterpret_cast<TVMFFISafeCallType>(safe_call),
                           reinterpret_cast<void (*)(void*)>(deleter), &function));
  return Function(ffi::detail::ObjectUnsafe::ObjectPtrFromOwned<ffi::FunctionObj>(function));
}

/// The address of a std::atomic<uint64_t>, for callers that keep what they found.
void* GetRegistryEpoch() { return &RegistryEpoch(); }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def("ffi.FunctionListGlobalNamesFunctor", &ListGlobalNames)
      .def("ffi.FunctionRemoveGlobal",
           [](const String& name) { return RemoveGlobalFunction(name); })
      .def("ffi.FunctionFromExternC", &FunctionFromExternC)
      .def("ffi.GetGlobalFuncMetadata", &GetMetadata)
      .def("ffi.GetRegisteredTypeKeys", &GetTypeKeys)
      .def("graphffi.registry_epoch", &GetRegistryEpoch);
}

}  // namespace
}  // namespace graphffi::runtime

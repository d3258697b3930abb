// SPDX-License-Identifier: Apache-2.0
#include "callframe/global_function.h"

#include <string>

#include "callframe/call_frame.h"
#include "callframe/error.h"
#include "callframe/owned_values.h"
#include "callframe/registry_watch.h"

namespace graphffi {
namespace {

void NoteChange() {
  RegistryWatch& watch = RegistryWatch::Get();
  if (!watch.is_own_runtime()) watch.own_epoch.fetch_add(1, std::memory_order_release);
}

int GetGlobal(std::string_view name, TVMFFIObjectHandle* function) {
  const TVMFFIByteArray bytes = {name.data(), name.size()};
  return TVMFFIFunctionGetGlobal(&bytes, function);
}

int CallFunction(TVMFFIObjectHandle function, const TVMFFIAny* args, int32_t num_args,
                 TVMFFIAny* result) {
  const Kernel kernel = Kernel::FromFunction(function);
  return kernel.safe_call(kernel.handle, args, num_args, result);
}

}  // namespace

TVMFFIObjectHandle FindGlobal(std::string_view name) {
  TVMFFIObjectHandle function = nullptr;
  int rc = 0;
  WithRegistryLocked([&] { rc = GetGlobal(name, &function); });
  CheckRc(rc);
  return function;
}

TVMFFIObjectHandle FindRequired(std::string_view name) {
  if (const TVMFFIObjectHandle function = FindGlobal(name)) return function;
  throw Error("RuntimeError",
              "graphffi: the runtime lacks the function '" + std::string(name) + "'");
}

TVMFFIObjectHandle FindGlobalUnlocked(std::string_view name) {
  TVMFFIObjectHandle function = nullptr;
  CheckRc(GetGlobal(name, &function));
  return function;
}

void* FindShared(std::string_view name) {
  const TVMFFIObjectHandle function = FindGlobalUnlocked(name);
  if (function == nullptr) return nullptr;
  TVMFFIAny result{};
  const int rc = CallFunction(function, nullptr, 0, &result);
  TVMFFIObjectDecRef(function);
  CheckRc(rc);
  return result.v_ptr;
}

void* Share(std::string_view name, void* pointer) {
  const auto get = [](void* self, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    *result = MakePointer(self);
    return 0;
  };
  const TVMFFIByteArray bytes = {name.data(), name.size()};
  TVMFFIObjectHandle function = nullptr;
  CheckRc(TVMFFIFunctionCreate(pointer, get, nullptr, &function));
  const int rc = TVMFFIFunctionSetGlobal(&bytes, function, /*allow_override=*/0);
  TVMFFIObjectDecRef(function);
  if (rc == 0) return pointer;
  const Error error = Error::TakeRaised(rc);
  if (void* shared = FindShared(name)) return shared;
  throw error;
}

void SetGlobal(std::string_view name, TVMFFIObjectHandle function, bool allow_override) {
  const TVMFFIByteArray bytes = {name.data(), name.size()};
  int rc = 0;
  WithRegistryLocked(
      [&] { rc = TVMFFIFunctionSetGlobal(&bytes, function, allow_override ? 1 : 0); });
  CheckRc(rc);
  NoteChange();
}

void SetGlobal(std::string_view name, TVMFFISafeCallType function, bool allow_override) {
  TVMFFIObjectHandle made = nullptr;
  CheckRc(TVMFFIFunctionCreate(nullptr, function, nullptr, &made));
  try {
    SetGlobal(name, made, allow_override);
  } catch (...) {
    TVMFFIObjectDecRef(made);
    throw;
  }
  TVMFFIObjectDecRef(made);
}

bool RemoveGlobal(std::string_view name) {
  const TVMFFIObjectHandle remove = FindRequired("ffi.FunctionRemoveGlobal");
  TVMFFIAny argument = MakeString(name), removed{};
  int rc = 0;
  WithRegistryLocked([&] { rc = CallFunction(remove, &argument, 1, &removed); });
  ReleaseValue(&argument);
  TVMFFIObjectDecRef(remove);
  CheckRc(rc);
  NoteChange();
  return removed.v_int64 != 0;
}

TVMFFIAny CallGlobal(std::string_view name, const TVMFFIAny* args, int32_t num_args) {
  const TVMFFIObjectHandle function = FindRequired(name);
  TVMFFIAny result{};
  const int rc = CallFunction(function, args, num_args, &result);
  TVMFFIObjectDecRef(function);
  CheckRc(rc);
  return result;
}

}  // namespace graphffi

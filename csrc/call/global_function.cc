// SPDX-License-Identifier: Apache-2.0
#include "call/global_function.h"

#include <string>

#include "call/call_frame.h"
#include "call/convert.h"
#include "call/error.h"
#include "call/registry_watch.h"
#include "call/value.h"

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

int CallFunction(const ObjectRef& function, const TVMFFIAny* args, int32_t num_args,
                 TVMFFIAny* result) {
  const Kernel kernel = Kernel::FromFunction(function.get());
  return kernel.safe_call(kernel.handle, args, num_args, result);
}

}  // namespace

ObjectRef FindGlobal(std::string_view name) {
  TVMFFIObjectHandle function = nullptr;
  int rc = 0;
  WithRegistryLocked([&] { rc = GetGlobal(name, &function); });
  CheckRc(rc);
  return ObjectRef(function);
}

ObjectRef FindRequired(std::string_view name) {
  if (ObjectRef function = FindGlobal(name)) return function;
  throw Error("RuntimeError",
              "graphffi: the runtime lacks the function '" + std::string(name) + "'");
}

void* FindShared(std::string_view name) {
  TVMFFIObjectHandle found = nullptr;
  CheckRc(GetGlobal(name, &found));
  const ObjectRef function(found);
  if (!function) return nullptr;
  TVMFFIAny result{};
  CheckRc(CallFunction(function, nullptr, 0, &result));
  return result.v_ptr;
}

void* Share(std::string_view name, void* pointer) {
  const auto get = [](void* self, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    *result = ToAny(self);
    return 0;
  };
  const TVMFFIByteArray bytes = {name.data(), name.size()};
  TVMFFIObjectHandle made = nullptr;
  CheckRc(TVMFFIFunctionCreate(pointer, get, nullptr, &made));
  const ObjectRef function(made);
  const int rc = TVMFFIFunctionSetGlobal(&bytes, function.get(), /*allow_override=*/0);
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
  SetGlobal(name, ObjectRef(made).get(), allow_override);
}

bool RemoveGlobal(std::string_view name) {
  const ObjectRef remove = FindRequired("ffi.FunctionRemoveGlobal");
  const tvm::ffi::Any text = MakeString(name);
  const TVMFFIAny argument = ToAny(text);
  TVMFFIAny removed{};
  int rc = 0;
  WithRegistryLocked([&] { rc = CallFunction(remove, &argument, 1, &removed); });
  CheckRc(rc);
  NoteChange();
  return removed.v_int64 != 0;
}

tvm::ffi::Any CallGlobal(std::string_view name, const TVMFFIAny* args, int32_t num_args) {
  const ObjectRef function = FindRequired(name);
  TVMFFIAny result{};
  CheckRc(CallFunction(function, args, num_args, &result));
  return TakeAny(result);
}

}  // namespace graphffi

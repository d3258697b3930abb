// SPDX-License-Identifier: Apache-2.0
// Function objects around a C callback.
#include "function.h"

#include "error.h"

namespace graphffi::runtime {
namespace {

struct ClosureObject {
  TVMFFIObject header;
  TVMFFIFunctionCell cell;
  void* self;
  TVMFFISafeCallType callback;
  void (*deleter)(void* self);

  ~ClosureObject() {
    if (deleter != nullptr) deleter(self);
  }
};

int CallClosure(void* handle, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  auto* closure = static_cast<ClosureObject*>(handle);
  return closure->callback(closure->self, args, num_args, result);
}

}  // namespace

ObjectPtr<> MakeFunction(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void* self)) {
  if (safe_call == nullptr) {
    Throw("ValueError", "graphffi: function: expected the address of a callback, got NULL");
  }
  if (self == nullptr && deleter == nullptr) {
    TVMFFIFunctionCell cell = {safe_call, nullptr};
    return ObjectPtr<>::Steal(MakeObject<FunctionObject>(kTVMFFIFunction, 0, cell).Release());
  }
  TVMFFIFunctionCell cell = {CallClosure, nullptr};
  return ObjectPtr<>::Steal(
      MakeObject<ClosureObject>(kTVMFFIFunction, 0, cell, self, safe_call, deleter).Release());
}

Any CallFunction(TVMFFIObject* function, std::initializer_list<TVMFFIAny> args) {
  Any result;
  CheckForeign(CallRaw(function, args.begin(), static_cast<int32_t>(args.size()), result.out()));
  return result;
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void* self),
                         TVMFFIObjectHandle* out) {
  return Guard([&] { *out = MakeFunction(self, safe_call, deleter).Release(); });
}

int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny* args, int32_t num_args,
                       TVMFFIAny* result) {
  return CallRaw(static_cast<TVMFFIObject*>(func), args, num_args, result);
}

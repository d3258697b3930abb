// SPDX-License-Identifier: Apache-2.0
// Function objects around a C callback.
#include "function.h"

#include "error.h"

namespace graphffi::runtime {
namespace {

/// cell.cpp_call stays NULL in every function that the runtime makes, and is never called in one it
/// is given: it throws the exceptions of another library's C++ world.
struct FunctionObject {
  TVMFFIObject header;
  TVMFFIFunctionCell cell;
};

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

}  // namespace

Any CallFunction(TVMFFIObject* function, std::initializer_list<TVMFFIAny> args) {
  Any result;
  auto num_args = static_cast<int32_t>(args.size());
  CheckForeign(TVMFFIFunctionGetCellPtr(function)->safe_call(function, args.begin(), num_args,
                                                             result.out()));
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
  return TVMFFIFunctionGetCellPtr(func)->safe_call(func, args, num_args, result);
}

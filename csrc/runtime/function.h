// SPDX-License-Identifier: Apache-2.0
// Function objects, and calls of functions that may come from any library.
#pragma once

#include <initializer_list>

#include "any.h"

namespace graphffi::runtime {

/// cell.cpp_call stays NULL in every function that the runtime makes, and is never called in one it
/// is given: it throws the exceptions of another library's C++ world.
struct FunctionObject {
  TVMFFIObject header;
  TVMFFIFunctionCell cell;
};

/// As TVMFFIFunctionCreate. \throws Error(ValueError) if there is no callback
ObjectPtr<> MakeFunction(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void* self));

inline int CallRaw(TVMFFIObject* function, const TVMFFIAny* args, int32_t num_args,
                   TVMFFIAny* result) {
  return reinterpret_cast<FunctionObject*>(function)->cell.safe_call(function, args, num_args,
                                                                     result);
}

/// \throws ForeignError
Any CallFunction(TVMFFIObject* function, std::initializer_list<TVMFFIAny> args);

}  // namespace graphffi::runtime

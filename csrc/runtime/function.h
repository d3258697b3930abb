// SPDX-License-Identifier: Apache-2.0
// Function objects, and calls of functions that may come from any library.
#pragma once

#include <initializer_list>

#include "any.h"

namespace graphffi::runtime {

/// As TVMFFIFunctionCreate. \throws Error(ValueError) if there is no callback
ObjectPtr<> MakeFunction(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void* self));

/// \throws ForeignError
Any CallFunction(TVMFFIObject* function, std::initializer_list<TVMFFIAny> args);

}  // namespace graphffi::runtime

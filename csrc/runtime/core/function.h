// SPDX-License-Identifier: Apache-2.0
// Calls of functions that may come from any library.
#pragma once

#include <initializer_list>

#include "any.h"

namespace graphffi::runtime {

/// \throws ForeignError
Any CallFunction(TVMFFIObject* function, std::initializer_list<TVMFFIAny> args);

}  // namespace graphffi::runtime

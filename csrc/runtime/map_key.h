// SPDX-License-Identifier: Apache-2.0
// Hash and equality of map keys.
#pragma once

#include "any.h"

namespace graphffi::runtime {

/// \throws ForeignError from a type's own __any_hash__
uint64_t HashKey(const TVMFFIAny& key);
/// Equal strings are equal wherever their bytes are; 1 and 1.0 are not.
bool KeysEqual(const TVMFFIAny& a, const TVMFFIAny& b);

}  // namespace graphffi::runtime

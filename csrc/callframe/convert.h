// SPDX-License-Identifier: Apache-2.0
// Values that plans make of others.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>

#include "callframe/plan.h"

namespace graphffi {

/// An ffi.Array of `count` values: *new reference*. \throws Error when the runtime can't make one.
TVMFFIAny MakeArray(const TVMFFIAny* values, int32_t count);

/// `value` as `conversion` says; no reference is taken. \throws Error(TypeError, ValueError)
TVMFFIAny ConvertAttribute(const TVMFFIAny& value, Plan::Conversion conversion);

}  // namespace graphffi

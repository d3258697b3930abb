// SPDX-License-Identifier: Apache-2.0
// Values that are made of others.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "call/plan.h"

namespace graphffi {

/// A string of the runtime, where it is too long for the value itself. \throws Error
tvm::ffi::Any MakeString(std::string_view text);

/// An ffi.Array of `count` values: *new reference*. \throws Error when the runtime can't make one.
TVMFFIAny MakeArray(const TVMFFIAny* values, int32_t count);
tvm::ffi::Any MakeArray(const std::vector<tvm::ffi::Any>& values);
/// An ffi.Map of a key, its value, a key, and so on. \throws Error likewise
tvm::ffi::Any MakeMap(const std::vector<tvm::ffi::Any>& pairs);

/// `value` as `conversion` says; no reference is taken. \throws Error(TypeError, ValueError)
TVMFFIAny ConvertAttribute(const TVMFFIAny& value, Plan::Conversion conversion);

}  // namespace graphffi

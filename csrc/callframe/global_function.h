// SPDX-License-Identifier: Apache-2.0
// Functions of the process's registry, by name.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string_view>

namespace graphffi {

/// *New reference*, NULL where there is none. \throws Error
TVMFFIObjectHandle FindGlobal(std::string_view name);

/// Calls the function, which must exist; what it returns is owned by the caller. \throws Error
TVMFFIAny CallGlobal(std::string_view name, const TVMFFIAny* args, int32_t num_args);

}  // namespace graphffi

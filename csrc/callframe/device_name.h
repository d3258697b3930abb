// SPDX-License-Identifier: Apache-2.0
// Names of devices as users write them: "cpu", "cuda:1".
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>
#include <string_view>

namespace graphffi {

/// "type" or "type:index". \throws Error(ValueError) with the known types.
DLDevice DeviceFromName(std::string_view name);

/// The reverse; the CPU's index 0 is left out.
std::string DeviceToName(DLDevice device);

}  // namespace graphffi

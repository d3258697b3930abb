// SPDX-License-Identifier: Apache-2.0
// The global functions of the process, by name.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "object.h"

namespace graphffi::runtime {

/// How many functions were replaced or removed so far. Lives as long as the process.
std::atomic<uint64_t>& RegistryEpoch();
/// Empty if nobody registered the name.
ObjectPtr<> FindGlobalFunction(std::string_view name);
/// False if there was no such function.
bool RemoveGlobalFunction(std::string_view name);
std::vector<std::string> ListGlobalFunctions();
/// The metadata that the function was registered with, "" if with none; nothing if there is no such
/// function.
std::optional<std::string> FindGlobalFunctionMetadata(std::string_view name);

}  // namespace graphffi::runtime

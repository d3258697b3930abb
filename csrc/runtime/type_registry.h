// SPDX-License-Identifier: Apache-2.0
// The types of the process: indices, keys, ancestors.
#pragma once

#include <string_view>
#include <vector>

#include "any.h"
#include "find_type.h"

namespace graphffi::runtime {

/// As FindType. \throws Error(RuntimeError)
TVMFFITypeInfo* GetType(int32_t type_index);
/// True if a value of `type_index` is an `expected` or derived from it.
bool IsInstance(int32_t type_index, int32_t expected);
/// "unknown" for an index that was never handed out.
std::string_view TypeKey(int32_t type_index);
/// By type index.
std::vector<std::string_view> ListTypeKeys();

}  // namespace graphffi::runtime

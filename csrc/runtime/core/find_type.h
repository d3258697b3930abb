// SPDX-License-Identifier: Apache-2.0
// What files over tvm::ffi need of type_registry.h, whose other names are like those of tvm::ffi.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace graphffi::runtime {

/// NULL if the index was never handed out. Takes no lock.
TVMFFITypeInfo* FindType(int32_t type_index);
/// True if a value of `type_index` is an `expected` or derived from it.
bool IsInstance(int32_t type_index, int32_t expected);
/// Indexed by type index.
std::vector<std::string_view> ListTypeKeys();

}  // namespace graphffi::runtime

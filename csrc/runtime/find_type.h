// SPDX-License-Identifier: Apache-2.0
// FindType alone, for files over tvm::ffi, whose names are like the others of type_registry.h.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>

namespace graphffi::runtime {

/// NULL if the index was never handed out. Takes no lock.
TVMFFITypeInfo* FindType(int32_t type_index);

}  // namespace graphffi::runtime

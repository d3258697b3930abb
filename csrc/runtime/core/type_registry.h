// SPDX-License-Identifier: Apache-2.0
// The types of the process: indices, keys, ancestors, attributes.
#pragma once

#include <string_view>

#include "any.h"
#include "find_type.h"

namespace graphffi::runtime {

/// As FindType. \throws Error(RuntimeError)
TVMFFITypeInfo* GetType(int32_t type_index);
/// "unknown" for an index that was never handed out.
std::string_view TypeKey(int32_t type_index);

/// As TVMFFITypeRegisterAttr. \throws Error(RuntimeError)
void RegisterTypeAttr(int32_t type_index, std::string_view name, const TVMFFIAny& value);
/// An attribute that is the address of a function, for libraries to call.
template <typename F>
void RegisterFunctionAttr(int32_t type_index, std::string_view name, F* function) {
  RegisterTypeAttr(type_index, name, Any::Pointer(reinterpret_cast<void*>(function)).view());
}

}  // namespace graphffi::runtime

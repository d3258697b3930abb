// SPDX-License-Identifier: Apache-2.0
// A check for debugging: which runtime a library calls.
#pragma once

#include <string>

namespace graphffi {

/// Looks at what every TVMFFI function that an open library imports is bound to, and at nothing
/// else of it. `handle` is dlopen's, of a library opened with RTLD_NOW; `path` is for messages.
/// \throws Error(RuntimeError) if one is bound to anything but the process's libtvm_ffi.so.
void CheckBinding(void* handle, const std::string& path);

}  // namespace graphffi

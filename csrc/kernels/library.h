// SPDX-License-Identifier: Apache-2.0
// Libraries of kernels: opened once, all symbols at once, for the rest of the process.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>

namespace graphffi {

/// The module of the library at `path`; *borrowed reference*, since it is never released: code of
/// the library must stay mapped while what it made is alive. The same library gives the same
/// module.
/// \throws Error(RuntimeError) that names the file and what is wrong with it.
TVMFFIObjectHandle LoadLibrary(const std::string& path);

/// The symbol that the library of a `module` from LoadLibrary exports for kernel `name`. A call of
/// it bypasses two indirections that some runtimes add. NULL where there is none, and where modules
/// are embedded in the library, which may have functions of the same name.
TVMFFISafeCallType FindExported(TVMFFIObjectHandle module, const std::string& name);

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Libraries of kernels: opened once, all symbols at once, for the rest of the process.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>

namespace graphffi {

/// The module of the library at `path`; *borrowed reference*, since it is never released: code of
/// the library must stay mapped while what it made is alive. The same library gives the same
/// module. A path means the file that was there when it was first loaded or renewed.
/// \throws Error(RuntimeError) that names the file and what is wrong with it: also that another
/// file is there now.
TVMFFIObjectHandle LoadLibrary(const std::string& path);

/// Has `path` mean the file that is there now. What was loaded from an earlier one stays loaded.
/// Gives whether that is another file. Thread-safe.
/// \throws Error(RuntimeError) if the file was changed in place while it is loaded: the code that
/// is in use has changed with it.
bool RenewLibrary(const std::string& path);

/// Whether `path` means the file that is there now; also where it means none yet. Thread-safe.
bool IsLibraryCurrent(const std::string& path);

/// The symbol that the library of a `module` from LoadLibrary exports for kernel `name`. A call of
/// it bypasses two indirections that some runtimes add. NULL where there is none, and where modules
/// are embedded in the library, which may have functions of the same name.
TVMFFISafeCallType FindExported(TVMFFIObjectHandle module, const std::string& name);

}  // namespace graphffi

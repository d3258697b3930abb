// SPDX-License-Identifier: Apache-2.0
// Libraries of kernels: opened once, all symbols at once, for the rest of the process.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>
#include <string_view>

namespace graphffi {

/// A library that is never closed.
struct Library {
  void* handle;               ///< of dlopen
  TVMFFIObjectHandle module;  ///< *borrowed reference*: it is never released

  /// The symbol that the library exports for kernel `name`. A call of it bypasses two indirections
  /// that some runtimes add. NULL where there is none, and where modules are embedded in the
  /// library, which may have functions of the same name.
  TVMFFISafeCallType FindExported(const std::string& name) const;

  /// The modules that are embedded in the library, as csrc/runtime/modules/library_bin.cc reads
  /// them; empty if none are.
  std::string_view EmbeddedModules() const;
};

/// The library at `path`, which stays: code of it must stay mapped while what it made is alive. The
/// same file gives the same one; a path means the file that was there when it was first loaded or
/// renewed. Where the registry of functions has no lock, this takes the GIL,
/// because initialisers of the library may register some.
/// \throws Error(RuntimeError) that names the file and what is wrong with it: also that
/// another file is there now.
const Library& LoadLibrary(const std::string& path);

/// Has `path` mean the file that is there now. What was loaded from an earlier one stays loaded.
/// Gives whether that is another file. Thread-safe.
/// \throws Error(RuntimeError) if the file was changed in place while it is loaded: the code that
/// is in use has changed with it.
bool RenewLibrary(const std::string& path);

/// Whether `path` means the file that is there now; also where it means none yet. Thread-safe.
bool IsLibraryCurrent(const std::string& path);

}  // namespace graphffi

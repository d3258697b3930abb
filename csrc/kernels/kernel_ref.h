// SPDX-License-Identifier: Apache-2.0
// Kernel references: the strings by which graphs and artifacts name kernels.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>
#include <string_view>

#include "call/call_frame.h"
#include "call/object_ref.h"

namespace graphffi {

/// Facts of a kernel beside its function.
struct KernelFacts {
  bool in_library = false;     ///< named by `library.so::symbol`
  bool takes_tensors = false;  ///< its metadata says that a parameter is a Tensor, which owns
};

/// How to call a kernel, as long as there is a reference to its function.
struct ResolvedKernel {
  Kernel kernel;
  KernelFacts facts;
};

/// The function that `reference` names. `global.name` is looked up in the function
/// registry, as FindGlobal does; `library.so::symbol` is loaded on first use and kept for the rest
/// of the process: an absolute path, else searched in the folders of GRAPHFFI_LIBRARY_PATH and then
/// in `opt_origin` (the artifact's folder).
/// \throws Error(KeyError) for an unknown function, Error(RuntimeError) for a library that does not
/// load.
ObjectRef ResolveKernel(std::string_view reference, std::string_view opt_origin = {},
                        ResolvedKernel* opt_resolved = nullptr);

/// The facts about the kernel that `reference` names. \throws Error as ResolveKernel does.
KernelFacts FactsOf(std::string_view reference);

/// Has references by the absolute `path` of a library mean the file that is there now, from the
/// next time that they are resolved. Gives whether that is another file. Thread-safe.
/// \throws Error(RuntimeError) as RenewLibrary does.
bool RenewKernels(const std::string& path);

/// Loads the library at `path`, kept for the rest of the process; from then on, references
/// `name::symbol` mean it, wherever they stand. `name` holds no slash. Thread-safe; the first
/// library of a name stays, and no other one is loaded.
/// \throws Error(RuntimeError) if it does not load.
void ProvideLibrary(const std::string& name, const std::string& path);

/// Whether ProvideLibrary loaded a library as `name`. Thread-safe.
bool IsProvided(const std::string& name);

/// The file of a library: of an absolute path, or one in a folder of GRAPHFFI_LIBRARY_PATH or then
/// in `opt_origin`. \throws Error(RuntimeError) that names the folders
std::string FindLibrary(const std::string& library, std::string_view opt_origin);

/// Whether `reference` is a name that graphffi gave to a Python callable.
bool IsOwnName(std::string_view reference);

/// Whether `reference` is of the form `library.so::symbol`.
bool IsLibraryReference(std::string_view reference);

}  // namespace graphffi

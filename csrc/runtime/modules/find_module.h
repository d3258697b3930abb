// SPDX-License-Identifier: Apache-2.0
// What files over tvm::ffi need of module.h, whose other names are like those of tvm::ffi. Modules
// are their handles.
#pragma once

#include <string>

#include "runtime/core/object.h"

namespace graphffi::runtime {

/// The function of that name, a string, of the module or, if asked, of its imports, depth first;
/// empty if there is none.
ObjectPtr<> FindFunction(TVMFFIObject* module, const TVMFFIAny& name, bool query_imports);
/// The module that has the function; empty if there is none.
ObjectPtr<> FindImplementer(TVMFFIObject* module, const TVMFFIAny& name, bool query_imports);

/// Opens a shared library; the same library gives the same module.
ObjectPtr<> LoadLibraryModule(const std::string& path);
/// The module of the functions that are linked into the process with that prefix.
ObjectPtr<> SystemLibraryModule(const std::string& prefix);

}  // namespace graphffi::runtime

// SPDX-License-Identifier: Apache-2.0
// Kernel references: the strings by which graphs and artifacts name kernels.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string_view>

namespace graphffi {

/// What is known of a kernel beside its function.
struct KernelFacts {
  bool in_library = false;     ///< named by `library.so::symbol`
  bool takes_tensors = false;  ///< its metadata says that a parameter is a Tensor, which owns
};

/// The function that `reference` names; *new reference*. `global.name` is looked up in the function
/// registry at each call; `library.so::symbol` is loaded on first use and kept for the rest of the
/// process: an absolute path, else searched in the folders of GRAPHFFI_LIBRARY_PATH and then in
/// `opt_origin` (the artifact's folder).
/// \throws Error(KeyError) for an unknown function, Error(RuntimeError) for a library that does not
/// load.
TVMFFIObjectHandle ResolveKernel(std::string_view reference, std::string_view opt_origin = {},
                                 KernelFacts* opt_facts = nullptr);

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// The kernel libraries in packages that graphffi_torch.package() wrote; for C++ programs, too.
#pragma once

#include <string>
#include <vector>

#define GRAPHFFI_TORCH_PACKAGE_API __attribute__((visibility("default")))

namespace graphffi_torch {

struct PackageLibrary {
  std::string name;    ///< as references in the package name it
  std::string sha256;  ///< 64 hex digits, as the package says
};

/// The kernel libraries of the package at `path`; nothing is loaded.
/// \throws std::exception for a file that package() did not write.
GRAPHFFI_TORCH_PACKAGE_API std::vector<PackageLibrary> PackageLibraries(const std::string& path);

/// Verifies the kernel libraries of the package and loads them, which runs their code: only after
/// that, the package's model works in this process, for example in an AOTIModelPackageLoader.
/// `opt_trusted` are the SHA-256 of libraries that may be loaded; NULL trusts the package.
/// \throws std::exception for a library that differs from its hash or is not trusted;
/// then, none is loaded. Also where the process lacks a global function that the model calls.
GRAPHFFI_TORCH_PACKAGE_API void LoadPackageLibraries(const std::string& path,
                                                     const std::vector<std::string>* opt_trusted);

}  // namespace graphffi_torch

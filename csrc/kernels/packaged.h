// SPDX-License-Identifier: Apache-2.0
// Kernel libraries that travel in a package, beside the program that calls them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace graphffi {

struct PackagedLibrary {
  std::string name;    ///< as references in the package name it
  std::string sha256;  ///< 64 hex digits, as the package says
};

/// The libraries that a package's manifest lists: lines `<sha256>  <name>`. `subject` begins
/// errors.
/// \throws Error(ValueError) for names with slashes or a leading dot.
std::vector<PackagedLibrary> ReadManifest(const std::string& subject, const std::string& manifest);

/// The content of a library in the package, by its name; none if it is not there.
using ReadLibrary = std::function<std::optional<std::string>(const std::string& name)>;

/// Verifies the libraries and loads them, which runs their code; references by their names mean
/// them from then on. `opt_trusted` are the SHA-256 of those that may be loaded; NULL trusts all.
/// \throws Error(ValueError) for a library that is missing, differs from its hash or is not
/// trusted; then, none is loaded.
void LoadPackagedLibraries(const std::string& subject,
                           const std::vector<PackagedLibrary>& libraries, const ReadLibrary& read,
                           const std::vector<std::string>* opt_trusted);

/// What programs name the library at `path`: `kernels-0123456789abcdef.so`, with the first digits
/// of its SHA-256. \throws Error(RuntimeError) if it can't be read
std::string PackagedName(const std::string& path);

/// The reference of a kernel in the library that a program names `name`, which ends with the first
/// digits of its SHA-256: the one that a package provided, or a file of that name in `folder` or a
/// folder of GRAPHFFI_LIBRARY_PATH, or else what `reference` names where the program was made.
/// \throws Error(ValueError) if the library has other content by now. Error(RuntimeError) if there
/// is none.
std::string FindPackagedKernel(const std::string& reference, const std::string& name,
                               const std::string& folder);

}  // namespace graphffi

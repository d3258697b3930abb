// SPDX-License-Identifier: Apache-2.0
// Where the library is that a part of it is in.
#pragma once

#include <string>

namespace graphffi_standalone {

/// The folder of the library that holds `address`; empty if it is not known.
std::string FolderOf(const void* address);

}  // namespace graphffi_standalone

// SPDX-License-Identifier: Apache-2.0
// Checks of a library that the loader does not make before it maps it.
#pragma once

#include <string>

namespace graphffi {

/// What is wrong with a library that ends before its content does, which would end the process
/// with a bus error, or "" if all of it is there or it is no library of this machine's kind.
std::string DescribeTruncation(const std::string& path);

}  // namespace graphffi

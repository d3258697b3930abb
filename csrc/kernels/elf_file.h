// SPDX-License-Identifier: Apache-2.0
// What the loader does not check before it maps a library.
#pragma once

#include <string>

namespace graphffi {

/// What is wrong with a library that ends before its content does, which would end the process
/// with a bus error, or "" if all of it is there or it is no library of this machine's kind.
std::string DescribeTruncation(const std::string& path);

}  // namespace graphffi

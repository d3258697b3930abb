// SPDX-License-Identifier: Apache-2.0
// Checks of a library that the loader does not make before it maps it.
#pragma once

#include <string>

namespace graphffi {

/// The defect of a library; "" if it has none, or is no library of this machine's word size.
/// Defects: made for another processor, for which the loader finds "no such file"; or ending before
/// its content does, which would end the process with a bus error.
std::string DescribeDefect(const std::string& path);

}  // namespace graphffi

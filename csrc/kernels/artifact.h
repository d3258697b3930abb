// SPDX-License-Identifier: Apache-2.0
// Facts about the code of a compiled graph: the texts of its calls, and where it was loaded from.
#pragma once

#include <string>

namespace graphffi {

/// Text of generated C++ code, where NUL is written as the two bytes C0 80, which UTF-8 lacks.
std::string TextOfCode(const char* code);

/// The folder of the library that holds `address`; empty if it is not known.
std::string FolderOf(const void* address);

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
// Attributes that are texts, as kernels get them.
#pragma once

#include <tvm/ffi/c_api.h>

#include <string>

namespace graphffi_torch {

/// Borrowed from `text`; one that holds NUL, which would end it, is kept for the life of the
/// process. \throws graphffi::Error
TVMFFIAny TextValue(const std::string& text);

/// Text of generated C++ code, where NUL is written as the two bytes C0 80, which UTF-8 lacks.
std::string TextOfCode(const char* text);

}  // namespace graphffi_torch

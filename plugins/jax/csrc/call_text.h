// SPDX-License-Identifier: Apache-2.0
// The text of a call: what a program says of it besides its arrays. graphffi_jax/_lowering/
// call_text.py writes it: a line with the format, then lines of a name and a value.
#pragma once

#include <tvm/ffi/function.h>

#include <string>
#include <string_view>
#include <vector>

#include "site.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// Of a custom call to tvm_ffi.call, whose one attribute it is. Borrowed. \throws Error(TypeError)
std::string_view CallTextOf(const xla::Attributes& attributes);

/// Reads a text and finds the kernel; `to->subject()` is set as soon as it is known.
/// \throws Error(ValueError) for another text; as ResolveKernel does.
void ReadCallText(std::string_view text, SiteParts* to);

/// Reads the text of a target, whose attributes are in the program, by the names that *attributes
/// gets. The function is the kernel unless the text names one. \throws Error as ReadCallText does.
void ReadTargetText(std::string_view text, const tvm::ffi::Optional<tvm::ffi::Function>& function,
                    SiteParts* to, std::vector<std::string>* attributes);

}  // namespace graphffi_jax

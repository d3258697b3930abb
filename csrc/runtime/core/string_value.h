// SPDX-License-Identifier: Apache-2.0
// String and Bytes values: small ones inside the value, longer ones as objects.
#pragma once

#include <optional>
#include <string_view>

#include "any.h"

namespace graphffi::runtime {

/// \throws std::bad_alloc
Any MakeString(std::string_view text);
Any MakeBytes(std::string_view bytes);

/// The text of a String, small string or C string; borrowed from the value.
std::optional<std::string_view> TryText(const TVMFFIAny& value);

}  // namespace graphffi::runtime

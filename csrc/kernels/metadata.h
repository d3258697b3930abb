// SPDX-License-Identifier: Apache-2.0
// The signatures of functions, as their libraries describe them.
#pragma once

#include <string_view>

namespace graphffi {

/// Whether a parameter is an owning tensor, or holds some. `metadata` is JSON whose "type_schema"
/// is JSON in a string; any other text tells nothing, which is false. \throws Error
bool TakesTensors(std::string_view metadata);

}  // namespace graphffi

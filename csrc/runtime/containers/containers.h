// SPDX-License-Identifier: Apache-2.0
// Arrays and maps of the kernel-author headers, for code that is written without them.
#pragma once

#include <vector>

#include "runtime/core/any.h"

namespace graphffi::runtime {

ObjectPtr<> MakeArray(std::vector<Any> items);
/// The items of an Array; none for NULL.
std::vector<Any> ItemsOf(TVMFFIObject* opt_array);

/// The value, borrowed from the Map; NULL where there is no such key, or no Map. The key is a
/// string.
const TVMFFIAny* FindInMap(TVMFFIObject* opt_map, const TVMFFIAny& key);
/// A new Map of the entries of that one, if there is one, and one more.
ObjectPtr<> MapWith(TVMFFIObject* opt_map, Any key, Any value);

}  // namespace graphffi::runtime

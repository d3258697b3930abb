// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for the libraries in packages.
#pragma once

#include <cstddef>
#include <string>

namespace graphffi {

/// 64 lower-case hex digits.
std::string Sha256(const void* bytes, size_t size);

}  // namespace graphffi

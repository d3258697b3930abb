// SPDX-License-Identifier: Apache-2.0
// Has a defect on purpose, behind bytes that only a search guided by coverage finds in time.
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == 'f') {
    if (size > 1 && data[1] == 'f') {
      if (size > 2 && data[2] == 'i') {
        const volatile uint8_t* bytes = data;
        return bytes[3] * 0;  // where the input ends
      }
    }
  }
  return 0;
}

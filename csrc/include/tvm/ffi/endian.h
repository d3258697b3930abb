// SPDX-License-Identifier: Apache-2.0
// Byte order of serialised data: little-endian, as on every platform that is supported.
#pragma once

#include <cstddef>
#include <cstdint>

#define TVM_FFI_LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define TVM_FFI_IO_USE_LITTLE_ENDIAN 1
#define TVM_FFI_IO_NO_ENDIAN_SWAP (TVM_FFI_LITTLE_ENDIAN == TVM_FFI_IO_USE_LITTLE_ENDIAN)

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Reverses the bytes of each of num_elems elements in place.
inline void ByteSwap(void* data, size_t elem_bytes, size_t num_elems) {
  for (size_t i = 0; i < num_elems; ++i) {
    uint8_t* bytes = static_cast<uint8_t*>(data) + i * elem_bytes;
    for (size_t j = 0; j < elem_bytes / 2; ++j) {
      uint8_t kept = bytes[elem_bytes - 1 - j];
      bytes[elem_bytes - 1 - j] = bytes[j];
      bytes[j] = kept;
    }
  }
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi

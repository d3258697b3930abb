// SPDX-License-Identifier: Apache-2.0
// What graphffi reads of the metadata that a library exports for a function.
#include <string>

#include "kernels/kernel_ref.h"
#include "raised.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string metadata(reinterpret_cast<const char*>(data), size);
  const bool takes_tensors = graphffi::TakesTensors(metadata);
  Require(!takes_tensors || metadata.find("ffi.Tensor") != std::string::npos ||
          metadata.find('\\') != std::string::npos);
  // What comes after the signature, or is escaped once more, changes nothing that was found.
  Require(graphffi::TakesTensors(metadata + " ") == takes_tensors);
  std::string escaped;
  for (const char c : metadata) {
    if (c == '"') escaped += '\\';
    escaped += c;
  }
  Require(graphffi::TakesTensors(escaped) == takes_tensors);
  return 0;
}

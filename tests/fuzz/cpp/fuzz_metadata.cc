// SPDX-License-Identifier: Apache-2.0
// What graphffi reads of the metadata that a library exports for a function.
#include <string>

#include "kernels/metadata.h"
#include "raised.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string metadata(reinterpret_cast<const char*>(data), size);
  const bool takes_tensors = graphffi::TakesTensors(metadata);
  Require(!takes_tensors || metadata.find("type_schema") != std::string::npos ||
          metadata.find('\\') != std::string::npos);
  Require(graphffi::TakesTensors(metadata + " ") == takes_tensors);
  // The whole as a signature, which it is not in itself.
  std::string escaped;
  for (const char c : metadata) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  graphffi::TakesTensors("{\"type_schema\":\"" + escaped + "\"}");
  return 0;
}

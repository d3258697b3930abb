// SPDX-License-Identifier: Apache-2.0
// The traceback line of a place in a kernel. Frames above it are not unwound: the host language
// adds its own.
#include "error.h"

const TVMFFIByteArray* TVMFFIBacktrace(const char* filename, int lineno, const char* func, int) {
  using namespace graphffi::runtime;
  static const TVMFFIByteArray empty = {"", 0};
  static thread_local std::string text;
  static thread_local TVMFFIByteArray bytes;
  if (filename == nullptr || func == nullptr) return &empty;
  try {
    text = Concat("  File \"", filename, "\", line ", lineno, ", in ", func, "\n");
    bytes = {text.data(), text.size()};
    return &bytes;
  } catch (...) {  // Out of memory: a line less is better than an error about the error.
    return &empty;
  }
}

// SPDX-License-Identifier: Apache-2.0
// The traceback line of a place in a kernel. Frames above it are not unwound: the host language
// adds its own.
#include "error.h"

namespace graphffi::runtime {
namespace {

struct BacktraceText {
  std::string text;
  TVMFFIByteArray bytes = {"", 0};
};

}  // namespace
}  // namespace graphffi::runtime

const TVMFFIByteArray* TVMFFIBacktrace(const char* filename, int lineno, const char* func, int) {
  using namespace graphffi::runtime;
  static const TVMFFIByteArray empty = {"", 0};
  static thread_local BacktraceText last;
  if (filename == nullptr || func == nullptr) return &empty;
  try {
    last.text = Concat("  File \"", filename, "\", line ", lineno, ", in ", func, "\n");
    last.bytes = {last.text.data(), last.text.size()};
    return &last.bytes;
  } catch (...) {  // Out of memory: a line less is better than an error about the error.
    return &empty;
  }
}

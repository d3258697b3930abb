// SPDX-License-Identifier: Apache-2.0
// What graphffi reads of a library's file before the loader does.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "kernels/elf_file.h"
#include "raised.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("fuzzed.so", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  Require(ftruncate(file, 0) == 0);
  Require(pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const std::string problem = graphffi::DescribeDefect(path);
  Require(problem.empty() || problem.find("truncated") != std::string::npos ||
          problem.find("got one for") != std::string::npos);
  return 0;
}

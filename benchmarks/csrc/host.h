// SPDX-License-Identifier: Apache-2.0
// Shared by the programs that call a model: operands made from descriptions, and the report.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

/// An operand: "f2x3" is float32[2, 3] of ones, "i1" int64[1] of zeros.
struct Operand {
  bool is_float;
  std::vector<int64_t> shape;
  std::vector<char> memory;

  explicit Operand(const char* text) : is_float(*text == 'f') {
    int64_t count = 1;
    while (*text != '\0') {
      char* end = nullptr;
      shape.push_back(std::strtoll(text + 1, &end, 10));
      count *= shape.back();
      text = end;
    }
    memory.resize(static_cast<size_t>(count) * (is_float ? 4 : 8) + 64);
    if (is_float) std::fill_n(static_cast<float*>(data()), count, 1.0F);
  }
  /// 64-byte aligned.
  void* data() {
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~63UL);
  }
};

inline double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The value of a line of /proc/self/smaps_rollup, in bytes.
inline double MemoryOf(const std::string& name) {
  std::FILE* file = std::fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  double bytes = 0;
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
    const std::string text = line;
    if (text.rfind(name + ":", 0) == 0) bytes = 1024 * std::atof(text.c_str() + name.size() + 1);
  }
  if (file != nullptr) std::fclose(file);
  return bytes;
}

/// Calls `load`, which returns the model as a function. Prints the nanoseconds of loading, of the
/// first call and of each of `calls` (in processor time), then the memory of the process: all of
/// it, and the part that it does not share.
template <typename Load>
int Report(int calls, Load&& load) {
  const double begin = Seconds(CLOCK_MONOTONIC);
  auto run = load();
  const double loaded = Seconds(CLOCK_MONOTONIC);
  run();
  const double first = Seconds(CLOCK_MONOTONIC);
  for (int i = 0; i < calls / 10; ++i) run();
  const double from = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < calls; ++i) run();
  const double each = calls == 0 ? 0 : (Seconds(CLOCK_PROCESS_CPUTIME_ID) - from) / calls;
  std::printf("%.1f %.1f %.3f %.0f %.0f\n", 1e9 * (loaded - begin), 1e9 * (first - loaded),
              1e9 * each, MemoryOf("Rss"), MemoryOf("Anonymous"));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A loop in parts, each on a thread of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

namespace llama {

/// Calls `body(begin, end)` for [0, count), or for one part of it on each processor.
template <bool kThreaded, typename Body>
void ForParts(int64_t count, const Body& body) {
  const int64_t processors = kThreaded ? std::thread::hardware_concurrency() : 1;
  const int64_t parts = std::clamp<int64_t>(processors, 1, std::max<int64_t>(count, 1));
  std::vector<std::future<void>> others;
  for (int64_t i = 1; i < parts; ++i) {
    others.push_back(std::async(std::launch::async, [&body, count, parts, i] {
      body(count * i / parts, count * (i + 1) / parts);
    }));
  }
  body(0, count / parts);
  for (std::future<void>& other : others) other.get();
}

}  // namespace llama

// SPDX-License-Identifier: Apache-2.0
// Writes down calls of kernels before and after they run: GRAPHFFI_RECORD.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "observe/record_files.h"
#include "observe/watch.h"

namespace graphffi {

/// Thread-safe. A child that fork made has files of its own.
class Recorder {
 public:
  static constexpr int32_t kNames = 1;     ///< names, shapes, attributes, durations
  static constexpr int32_t kRanges = 2;    ///< and the least and greatest elements
  static constexpr int32_t kContents = 3;  ///< and all elements
  static constexpr int64_t kDefaultLimit = int64_t{1} << 30;

  /// The one of this library. Lives as long as the process.
  static Recorder& Get();

  /// Sets kRecord of `watch`, which is borrowed for good. \throws Error
  void Start(Watch* watch, const std::string& folder, int64_t level, int64_t limit);

  // The hooks of Watch.
  static void* BeginCall(const CallFacts& facts);
  static void EndCall(void* token, int rc, const TVMFFIAny& returned);
  static int StartFor(const char* folder, int32_t level, int64_t limit);
  static void Stop();

 private:
  struct Call;
  class Contents;

  Recorder();
  Call* Begin(const CallFacts& facts);
  void End(const Call& call, int rc, const TVMFFIAny& returned, int64_t nanoseconds);
  /// Says on the error stream why recording ends, which calls go on without. Under the mutex.
  void GiveUp(const char* reason);
  void OpenFiles();

  std::mutex mutex_;
  Watch* watch_ = nullptr;
  std::string folder_;
  int32_t level_ = 0;
  int64_t limit_ = 0;
  int64_t begin_ = 0;      // of the clock
  int64_t unix_time_ = 0;  // at the same moment, also in a child of fork
  uint64_t num_calls_ = 0;
  std::unique_ptr<RecordFiles> opt_files_;
};

}  // namespace graphffi

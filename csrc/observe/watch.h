// SPDX-License-Identifier: Apache-2.0
// Who looks at the calls of kernels: one switch for the process, which each call tests once.
#pragma once

#include <tvm/ffi/c_api.h>

#include <atomic>
#include <cstdint>

#include "call/plan.h"

namespace graphffi {

/// A call, as observers get it. Borrowed until the call is over.
struct CallFacts {
  const char* subject;  ///< the op's name; "" where there is none
  const char* kernel;   ///< its reference; "" where it has none
  TVMFFISafeCallType safe_call;
  const TVMFFIAny* args;
  int32_t num_args;
  const Bank* opt_outputs;  ///< what the call writes; NULL where the program does not say
  int32_t num_fresh;        ///< outputs, the first, whose contents nobody reads before the call
};

/// Has a fixed layout: each of graphffi's libraries has a copy of this code, and all use what the
/// first one made.
struct Watch {
  static constexpr uint32_t kDebug = 1;   ///< GRAPHFFI_DEBUG=1
  static constexpr uint32_t kRecord = 2;  ///< calls are recorded
  static constexpr uint32_t kRanges = 4;  ///< calls are ranges of NVTX

  std::atomic<uint32_t> kinds{0};
  /// Writes down that a call begins, and what came of it. `begin` gives NULL where nothing is
  /// recorded. Neither throws, nor changes the thread's error.
  void* (*begin_record)(const CallFacts& facts) = nullptr;
  void (*end_record)(void* token, int rc, const TVMFFIAny& returned) = nullptr;
  int (*begin_range)(const char* name) = nullptr;
  int (*end_range)() = nullptr;
  /// Begins recording. -1 with an error raised.
  int (*start_recording)(const char* folder, int32_t level, int64_t limit) = nullptr;
  void (*stop_recording)() = nullptr;
  /// Why what the environment asks for is not done; "" if it is.
  char problem[512] = "";

  bool has(uint32_t kind) const { return (kinds.load(std::memory_order_relaxed) & kind) != 0; }

  /// The one of the process, which is made now if need be. Lives as long as that. \throws Error
  static Watch* Get();
};

/// Whether a variable of the environment is 1; `otherwise` if it is empty or not set.
/// \throws Error(ValueError) unless it is 0 or 1
bool FlagOfEnvironment(const char* name, bool otherwise);

/// The process's, from when this library is loaded.
extern Watch* const watch;

/// Whether anybody looks at calls.
inline bool IsWatched() { return watch->kinds.load(std::memory_order_relaxed) != 0; }

/// Whether GRAPHFFI_DEBUG was 1 when the first of graphffi's libraries was loaded.
inline bool IsDebugging() { return watch->has(Watch::kDebug); }

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
#include "observe/watch.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "call/error.h"
#include "call/global_function.h"
#include "observe/recorder.h"

namespace graphffi {
namespace {

/// Gives the process's to all libraries, which have each a copy of this code.
constexpr std::string_view kSharedWatch = "graphffi.watch_1";

std::string_view TextOfEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// \throws Error(ValueError)
int64_t NumberOfEnvironment(const char* name, int64_t otherwise) {
  const std::string text(TextOfEnvironment(name));
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const int64_t number = std::strtoll(text.c_str(), &end, 10);
  if (*end == '\0' && number > 0) return number;
  throw Error("ValueError",
              std::string("graphffi: ") + name + ": expected a number above 0, got '" + text + "'");
}

void StartRecording(Watch* made) {
  const std::string folder(TextOfEnvironment("GRAPHFFI_RECORD"));
  if (folder.empty()) return;
  const int64_t level = NumberOfEnvironment("GRAPHFFI_RECORD_LEVEL", Recorder::kNames);
  const int64_t limit = NumberOfEnvironment("GRAPHFFI_RECORD_LIMIT", Recorder::kDefaultLimit);
  Recorder::Get().Start(made, folder, level, limit);
}

/// Where NVTX is: only under a profiler, unless it is asked for.
void FindRanges(Watch* made) {
  const std::string asked(TextOfEnvironment("GRAPHFFI_NVTX"));
  if (asked == "0" || (asked.empty() && TextOfEnvironment("NVTX_INJECTION64_PATH").empty())) return;
  void* library = nullptr;
  if (asked.find('/') != std::string::npos) {
    library = dlopen(asked.c_str(), RTLD_NOW | RTLD_LOCAL);
  } else if (asked.empty() || asked == "1") {
    for (const char* name : {"libnvToolsExt.so.1", "libnvtx3interop.so.1", "libnvtx3interop.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library != nullptr) {
    made->begin_range = reinterpret_cast<int (*)(const char*)>(dlsym(library, "nvtxRangePushA"));
    made->end_range = reinterpret_cast<int (*)()>(dlsym(library, "nvtxRangePop"));
  }
  if (made->begin_range != nullptr && made->end_range != nullptr) {
    made->kinds |= Watch::kRanges;
  } else if (!asked.empty()) {
    throw Error("RuntimeError",
                "graphffi: GRAPHFFI_NVTX: expected 0, 1 or a library of NVTX, got '" + asked +
                    "'; give the path of libnvToolsExt.so.1 or libnvtx3interop.so");
  }
}

/// Starts what the environment asks for. A program in C++ is told of mistakes on its error stream.
void ReadEnvironment(Watch* made) {
  try {
    if (FlagOfEnvironment("GRAPHFFI_DEBUG", false)) made->kinds |= Watch::kDebug;
    StartRecording(made);
    FindRanges(made);
  } catch (const Error& error) {
    std::snprintf(made->problem, sizeof(made->problem), "%s", error.message().c_str());
    std::fprintf(stderr, "%s\n", made->problem);
  }
}

}  // namespace

Watch* const watch = Watch::Get();

bool FlagOfEnvironment(const char* name, bool otherwise) {
  const std::string text(TextOfEnvironment(name));
  if (text.empty()) return otherwise;
  if (text == "0" || text == "1") return text == "1";
  throw Error("ValueError",
              std::string("graphffi: ") + name + ": expected 0 or 1, got '" + text + "'");
}

Watch* Watch::Get() {
  if (void* shared = FindShared(kSharedWatch)) return static_cast<Watch*>(shared);
  auto made = std::make_unique<Watch>();
  made->begin_record = &Recorder::BeginCall;
  made->end_record = &Recorder::EndCall;
  made->start_recording = &Recorder::StartFor;
  made->stop_recording = &Recorder::Stop;
  void* const shared = Share(kSharedWatch, made.get());
  if (shared != made.get()) return static_cast<Watch*>(shared);
  ReadEnvironment(made.get());
  return made.release();
}

}  // namespace graphffi

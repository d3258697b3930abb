// SPDX-License-Identifier: Apache-2.0
// Error objects and the slot, one per thread, through which they travel.
#include "error.h"

#include <cstdio>
#include <cstdlib>

#include "cpp_error.h"

namespace graphffi::runtime {
namespace {

struct ErrorObject {
  TVMFFIObject header;
  TVMFFIErrorCell cell;
  std::string kind;
  std::string message;
  std::string backtrace;

  ~ErrorObject() {
    if (cell.cause_chain != nullptr) DecRef(static_cast<TVMFFIObject*>(cell.cause_chain));
    if (cell.extra_context != nullptr) DecRef(static_cast<TVMFFIObject*>(cell.extra_context));
  }
};

void UpdateBacktrace(TVMFFIObjectHandle self, const TVMFFIByteArray* text, int32_t mode) {
  auto* error = static_cast<ErrorObject*>(self);
  if (mode == kTVMFFIBacktraceUpdateModeReplace) {
    error->backtrace.assign(View(*text));
  } else {
    error->backtrace.append(View(*text));
  }
  error->cell.backtrace = {error->backtrace.data(), error->backtrace.size()};
}

ObjectPtr<ErrorObject> MakeErrorObject(std::string_view kind, std::string_view message,
                                       std::string_view backtrace) {
  auto error = MakeObject<ErrorObject>(kTVMFFIError, 0, TVMFFIErrorCell{}, std::string(kind),
                                       std::string(message), std::string(backtrace));
  error->cell.kind = {error->kind.data(), error->kind.size()};
  error->cell.message = {error->message.data(), error->message.size()};
  error->cell.backtrace = {error->backtrace.data(), error->backtrace.size()};
  error->cell.update_backtrace = UpdateBacktrace;
  return error;
}

// A plain pointer, so that reading it costs no check for first use; the cleaner is armed by the
// first error.
thread_local TVMFFIObject* raised = nullptr;

struct RaisedCleaner {
  bool armed = false;
  ~RaisedCleaner() {
    if (raised != nullptr) DecRef(std::exchange(raised, nullptr));
  }
};
thread_local RaisedCleaner raised_cleaner;

void StoreRaised(TVMFFIObject* owned_error) {
  raised_cleaner.armed = true;
  TVMFFIObject* previous = std::exchange(raised, owned_error);
  if (previous != nullptr) DecRef(previous);
}

constexpr char kNoMemoryKind[] = "MemoryError";
constexpr char kNoMemoryMessage[] = "graphffi: out of memory";

void KeepBacktrace(TVMFFIObjectHandle, const TVMFFIByteArray*, int32_t) {}

// Raised when there is no memory for an Error object. Never freed: it has no deleter.
TVMFFIObject* NoMemoryError() {
  struct StaticError {
    TVMFFIObject header;
    TVMFFIErrorCell cell;
  };
  static StaticError error = {{kUniqueCount, kTVMFFIError, 0, {nullptr}},
                              {{kNoMemoryKind, sizeof(kNoMemoryKind) - 1},
                               {kNoMemoryMessage, sizeof(kNoMemoryMessage) - 1},
                               {"", 0},
                               KeepBacktrace,
                               nullptr,
                               nullptr}};
  IncRef(&error.header);
  return &error.header;
}

}  // namespace

ObjectPtr<> MakeError(std::string_view kind, std::string_view message, std::string_view backtrace) {
  return ObjectPtr<>::Steal(MakeErrorObject(kind, message, backtrace).Release());
}

void SetRaised(std::string_view kind, std::string_view message) noexcept {
  try {
    StoreRaised(MakeError(kind, message).Release());
  } catch (...) {
    StoreRaised(NoMemoryError());
  }
}

int RaiseCurrentException() noexcept {
  try {
    throw;
  } catch (const ForeignError& error) {
    return error.code;
  } catch (const tvm::ffi::Error& error) {
    StoreRaised(ObjectPtr<>(error.object()).Release());
  } catch (const Error& error) {
    SetRaised(error.kind, error.message);
  } catch (const std::bad_alloc&) {
    SetRaised(kNoMemoryKind, kNoMemoryMessage);
  } catch (const std::exception& error) {
    SetRaised("InternalError", error.what());
  } catch (...) {
    SetRaised("InternalError", "graphffi: an exception of an unknown type was thrown");
  }
  return -1;
}

void ExitWithMessage(std::string_view message) noexcept {
  std::fprintf(stderr, "graphffi: %.*s\n", static_cast<int>(message.size()), message.data());
  std::exit(-1);
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* result) {
  *result = std::exchange(raised, nullptr);
}

void TVMFFIErrorSetRaised(TVMFFIObjectHandle error) {
  auto* object = static_cast<TVMFFIObject*>(error);
  if (object != nullptr) IncRef(object);
  StoreRaised(object);
}

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  SetRaised(kind, message);
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** message_parts,
                                       int32_t num_parts) {
  int code = Guard([&] {
    std::string message;
    for (int32_t i = 0; i < num_parts; ++i) {
      if (message_parts[i] != nullptr) message.append(message_parts[i]);
    }
    SetRaised(kind, message);
  });
  static_cast<void>(code);  // A failure has raised its own error.
}

int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                      const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out) {
  return Guard([&] { *out = MakeError(View(*kind), View(*message), View(*backtrace)).Release(); });
}

int TVMFFIErrorCreateWithCauseAndExtraContext(
    const TVMFFIByteArray* kind, const TVMFFIByteArray* message, const TVMFFIByteArray* backtrace,
    TVMFFIObjectHandle cause_chain, TVMFFIObjectHandle extra_context, TVMFFIObjectHandle* out) {
  return Guard([&] {
    auto error = MakeErrorObject(View(*kind), View(*message), View(*backtrace));
    error->cell.cause_chain = ObjectPtr<>::Share(cause_chain).Release();
    error->cell.extra_context = ObjectPtr<>::Share(extra_context).Release();
    *out = error.Release();
  });
}

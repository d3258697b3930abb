// SPDX-License-Identifier: Apache-2.0
#include "error_ring.h"

#include <tvm/ffi/function.h>

#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>

#include "xla_api.h"

namespace graphffi_jax {

using graphffi::Error;
using tvm::ffi::Function;

namespace {

struct KeptError {
  tvm::ffi::Error error;
  std::string text;  ///< of the report, without NUL, at which XLA cuts it
};

// Not destroyed at exit: XLA's threads may still report, and Python's exceptions are gone by then.
struct Ring {
  std::mutex mutex;
  int64_t next = 0;
  std::optional<KeptError> errors[kKeptErrors];
};
Ring& GetRing() {
  static Ring* ring = new Ring;
  return *ring;
}

struct FrameClearing {
  Function keeps_exception, clear;
};
// Not destroyed at exit either.
std::atomic<const FrameClearing*> frame_clearing{nullptr};

xla::StatusCode CodeOf(std::string_view kind) {
  if (kind == "KeyError") return xla::kNotFound;
  if (kind == "NotImplementedError") return xla::kUnimplemented;
  if (kind == "TypeError" || kind == "ValueError" || kind == "IndexError") {
    return xla::kInvalidArgument;
  }
  return kind == "RuntimeError" || kind == "InternalError" ? xla::kInternal : xla::kUnknown;
}

}  // namespace

tvm::ffi::Error ToTvmFfi(const Error& error) {
  using tvm::ffi::ErrorObj;
  if (error.opt_object() == nullptr) return {error.kind(), error.message(), error.backtrace()};
  auto* object = static_cast<TVMFFIObject*>(error.opt_object());
  return tvm::ffi::Error(tvm::ffi::detail::ObjectUnsafe::ObjectPtrFromUnowned<ErrorObj>(object));
}

void ClearFramesBy(Function keeps_exception, Function clear) {
  frame_clearing = new FrameClearing{std::move(keeps_exception), std::move(clear)};
}

void ClearFrames(const Error& error) noexcept try {
  const FrameClearing* opt_clearing = frame_clearing;
  if (opt_clearing == nullptr || error.opt_object() == nullptr) return;
  const tvm::ffi::Error raised = ToTvmFfi(error);
  // Threads take the GIL for the errors of Python only.
  if (opt_clearing->keeps_exception(raised).cast<bool>()) opt_clearing->clear(raised);
} catch (const std::exception&) {  // Python shuts down
}

void KeepInRing(const Error& error, const std::string& text) {
  // Dies outside of the lock: an error may hold a Python exception, whose end takes the GIL.
  std::optional<KeptError> slot = KeptError{ToTvmFfi(error), text.c_str()};
  Ring& ring = GetRing();
  std::lock_guard<std::mutex> lock(ring.mutex);
  std::swap(ring.errors[ring.next++ % kKeptErrors], slot);
}

xla::Status* Report(const xla::Api* api, const Error& error, const std::string& subject) {
  const std::string text = graphffi::TextOf(error, subject);
  KeepInRing(error, text);
  return xla::MakeStatus(api, CodeOf(error.kind()), text);
}

Error InternalError(const std::string& what) {
  return Error("InternalError",
               "graphffi: " + what + "; this is a bug in graphffi or in jaxlib, please report it");
}

xla::Status* ReportCaught(const xla::Api* api, const std::string& subject) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return Report(api, error, subject);
  } catch (const std::exception& error) {
    return Report(api, InternalError(error.what()), "");
  } catch (...) {
    return Report(api, InternalError("an exception of unknown type"), "");
  }
}

std::optional<tvm::ffi::Error> TakeFromRing(const std::string& report) {
  Ring& ring = GetRing();
  std::lock_guard<std::mutex> lock(ring.mutex);
  KeptError* opt_found = nullptr;
  for (int64_t i = 1; i <= kKeptErrors && i <= ring.next; ++i) {
    KeptError& kept = *ring.errors[(ring.next - i) % kKeptErrors];
    const bool is_longer = opt_found == nullptr || kept.text.size() > opt_found->text.size();
    if (is_longer && report.find(kept.text) != std::string::npos) opt_found = &kept;
  }
  if (opt_found == nullptr) return std::nullopt;
  tvm::ffi::Error found = opt_found->error;
  opt_found->error = {found.kind(), found.message(), found.backtrace()};
  return found;
}

}  // namespace graphffi_jax

// SPDX-License-Identifier: Apache-2.0
#include "error_ring.h"

#include <mutex>
#include <string_view>
#include <utility>

#include "xla_api.h"

namespace graphffi_jax {

using graphffi::Error;

namespace {

// Not destroyed at exit: XLA's threads may still report, and Python's exceptions are gone by then.
struct Ring {
  std::mutex mutex;
  int64_t next = 1;
  TVMFFIObjectHandle errors[kKeptErrors] = {};
};
Ring& GetRing() {
  static Ring* ring = new Ring;
  return *ring;
}

/// The object of `error`; *new reference*, NULL if the runtime can't make one.
TVMFFIObjectHandle ObjectOf(const Error& error) {
  if (TVMFFIObjectHandle object = error.opt_object()) {
    TVMFFIObjectIncRef(object);
    return object;
  }
  auto bytes = [](const std::string& text) { return TVMFFIByteArray{text.data(), text.size()}; };
  TVMFFIByteArray kind = bytes(error.kind()), message = bytes(error.message()),
                  backtrace = bytes(error.backtrace());
  TVMFFIObjectHandle object = nullptr;
  return TVMFFIErrorCreate(&kind, &message, &backtrace, &object) == 0 ? object : nullptr;
}

/// Takes `error` over.
int64_t Keep(TVMFFIObjectHandle error) {
  Ring& ring = GetRing();
  int64_t number;
  {
    std::lock_guard<std::mutex> lock(ring.mutex);
    number = ring.next++;
    std::swap(ring.errors[number % kKeptErrors], error);
  }
  // Outside of the lock: an error may hold a Python exception, whose end takes the GIL.
  if (error != nullptr) TVMFFIObjectDecRef(error);
  return number;
}

xla::StatusCode CodeOf(std::string_view kind) {
  if (kind == "KeyError") return xla::kNotFound;
  if (kind == "NotImplementedError") return xla::kUnimplemented;
  if (kind == "TypeError" || kind == "ValueError" || kind == "IndexError") {
    return xla::kInvalidArgument;
  }
  return kind == "RuntimeError" || kind == "InternalError" ? xla::kInternal : xla::kUnknown;
}

}  // namespace

int64_t KeepInRing(const Error& error) {
  TVMFFIObjectHandle object = ObjectOf(error);
  return object == nullptr ? 0 : Keep(object);
}

xla::Status* Report(const xla::Api* api, const Error& error, const std::string& subject) {
  bool named = error.message().compare(0, subject.size(), subject) == 0;
  std::string prefix = named || subject.empty() ? "" : subject + ": ";
  std::string text = error.kind() + ": " + prefix + error.message();
  if (const int64_t number = KeepInRing(error)) {
    text += " [tvm_ffi error " + std::to_string(number) + "]";
  }
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

bool RaiseKept(int64_t number) {
  Ring& ring = GetRing();
  TVMFFIObjectHandle error = nullptr;
  {
    std::lock_guard<std::mutex> lock(ring.mutex);
    if (number < 1 || number >= ring.next || number < ring.next - kKeptErrors) return false;
    error = ring.errors[number % kKeptErrors];
    TVMFFIObjectIncRef(error);
  }
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return true;
}

}  // namespace graphffi_jax

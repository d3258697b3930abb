// SPDX-License-Identifier: Apache-2.0
#include "call/error.h"

#include "call/global_function.h"
#include "call/value.h"

namespace graphffi {

namespace {
/// Takes the error out of this thread's slot.
std::shared_ptr<void> TakeSlot() {
  TVMFFIObjectHandle object = nullptr;
  TVMFFIErrorMoveFromRaised(&object);
  if (object == nullptr) return nullptr;
  return std::shared_ptr<void>(object, [](void* handle) { TVMFFIObjectDecRef(handle); });
}

/// Takes the error that is pending in the host language.
std::shared_ptr<void> TakePending() {
  const ObjectRef function = FindGlobal(Error::kRaisePendingName);
  if (!function) return nullptr;  // no host language
  TVMFFIAny result{};
  return TVMFFIFunctionCall(function.get(), nullptr, 0, &result) == 0 ? nullptr : TakeSlot();
}
}  // namespace

Error::Error(std::shared_ptr<void> object) : object_(std::move(object)) {
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(object_.get());
  kind_ = TextOf(cell->kind);
  message_ = TextOf(cell->message);
  backtrace_ = TextOf(cell->backtrace);
}

Error Error::TakeRaised(int rc) {
  std::shared_ptr<void> object = TakeSlot();
  const bool is_elsewhere =
      rc == -2 || object == nullptr || Error(object).kind() == "EnvErrorAlreadySet";
  if (!is_elsewhere) return Error(std::move(object));
  if (std::shared_ptr<void> pending = TakePending()) return Error(std::move(pending));
  const char* what = rc == -2 || object != nullptr
                         ? " and said that an exception is pending in Python, but none is"
                         : " without raising an error; it breaks the calling convention";
  return Error("InternalError", "graphffi: a kernel returned " + std::to_string(rc) + what);
}

const char* Error::what() const noexcept {
  try {
    if (what_.empty()) what_ = kind_ + ": " + message_;
    return what_.c_str();
  } catch (...) {
    return "out of memory while an error was reported";
  }
}

int SetRaised(const std::string& kind, const std::string& message) {
  TVMFFIErrorSetRaisedFromCStr(kind.c_str(), message.c_str());
  return -1;
}

int SetRaised(const Error& error) {
  if (error.opt_object() == nullptr) return SetRaised(error.kind(), error.message());
  TVMFFIErrorSetRaised(error.opt_object());
  return -1;
}

}  // namespace graphffi

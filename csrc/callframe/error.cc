// SPDX-License-Identifier: Apache-2.0
#include "callframe/error.h"

namespace graphffi {

namespace {
std::string ToString(const TVMFFIByteArray& bytes) {
  return bytes.size == 0 ? std::string() : std::string(bytes.data, bytes.size);
}
}  // namespace

Error Error::TakeRaised(int rc) {
  if (rc == -2) return Error("EnvErrorAlreadySet", "an exception is pending in the host language");
  TVMFFIObjectHandle object = nullptr;
  TVMFFIErrorMoveFromRaised(&object);
  if (object == nullptr) {
    return Error("InternalError",
                 "graphffi: a kernel returned " + std::to_string(rc) +
                     " without raising an error; it breaks the calling convention");
  }
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(object);
  Error error(ToString(cell->kind), ToString(cell->message), ToString(cell->backtrace));
  error.object_ = std::shared_ptr<void>(object, [](void* handle) { TVMFFIObjectDecRef(handle); });
  return error;
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

}  // namespace graphffi

// SPDX-License-Identifier: Apache-2.0
#include "call/error.h"

#include <algorithm>

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

namespace {

/// Length of the valid UTF-8 sequence that `text` begins with; 0 if there is none.
size_t SequenceLength(const unsigned char* text, size_t size) {
  unsigned char lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (length > size) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  bool overlong = (lead == 0xe0 && text[1] < 0xa0) || (lead == 0xf0 && text[1] < 0x90);
  bool surrogate = lead == 0xed && text[1] >= 0xa0;
  bool too_high = lead == 0xf4 && text[1] >= 0x90;
  return overlong || surrogate || too_high ? 0 : length;
}

}  // namespace

std::string PrintableText(const std::string& text) {
  auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t length = bytes[i] == 0 ? 0 : SequenceLength(bytes + i, text.size() - i);
    out.append(length != 0 ? text.substr(i, length) : "?");
    i += std::max<size_t>(length, 1);
  }
  return out;
}

std::string TextOf(const Error& error, const std::string& subject) {
  const bool is_named = error.message().compare(0, subject.size(), subject) == 0;
  const std::string prefix = is_named || subject.empty() ? "" : subject + ": ";
  return PrintableText(error.kind() + ": " + prefix + error.message());
}

}  // namespace graphffi

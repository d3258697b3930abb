// SPDX-License-Identifier: Apache-2.0
#include "call/error.h"

#include <tvm/ffi/error.h>

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

namespace {

// Texts of TVM FFI's headers, by which the functions that they make refuse arguments.
constexpr std::string_view kWrongCount = "Mismatched number of arguments when calling: ";
constexpr std::string_view kWrongType = "Mismatched type on argument #";
constexpr std::string_view kNotConverted = "Cannot convert from type `";

bool BeginsWith(std::string_view text, std::string_view begin) {
  return text.substr(0, begin.size()) == begin;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Whether a view was passed where the kernel takes a Tensor that owns.
bool WantsOwner(std::string_view text) {
  if (BeginsWith(text, kNotConverted)) {
    const size_t to = text.find("` to `");
    return to != text.npos && Has(text.substr(0, to), "DLTensor*") &&
           Has(text.substr(to), "ffi.Tensor");
  }
  const size_t actual = text.rfind("` but got `");
  const size_t expected = text.rfind("Expected `", actual);
  return BeginsWith(text, kWrongType) && actual != text.npos && expected != text.npos &&
         Has(text.substr(expected, actual - expected), "ffi.Tensor") &&
         Has(text.substr(actual), "DLTensor*");
}

}  // namespace

int NameRefusal(int rc, std::string_view subject) {
  if (rc == 0 || subject.empty()) return rc;
  const Error error = Error::TakeRaised(rc);
  const std::string& text = error.message();
  const bool is_count = BeginsWith(text, kWrongCount), wants_owner = WantsOwner(text);
  const bool is_refusal = is_count || wants_owner || BeginsWith(text, kWrongType);
  if (!is_refusal || error.kind() != "TypeError") return SetRaised(error);
  std::string named = std::string(subject) + ": " + text;
  if (is_count) named += "; the plan of the call says which values the kernel gets";
  if (wants_owner) named += "; pass pass_owning_tensor=True for such a kernel";
  tvm::ffi::detail::SetSafeCallRaised(
      tvm::ffi::Error(error.kind(), std::move(named), error.backtrace()));
  return -1;
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

// SPDX-License-Identifier: Apache-2.0
// String and Bytes: up to 7 bytes in the value itself, with unused bytes zero because hashes read
// the whole word.
#include "string_value.h"

#include <tvm/ffi/string.h>

#include "error.h"

namespace graphffi::runtime {
namespace {

namespace headers = tvm::ffi::detail;

template <typename Object>
Any Make(std::string_view content) {
  TVMFFIAny value;
  headers::WriteOwnedBytes<Object>(content.empty() ? "" : content.data(), content.size(), &value);
  return Any::Steal(value);
}

}  // namespace

Any MakeString(std::string_view text) { return Make<headers::StringObj>(text); }

Any MakeBytes(std::string_view bytes) { return Make<headers::BytesObj>(bytes); }

std::optional<std::string_view> TryText(const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFIRawStr:
      return std::string_view(value.v_c_str);
    case kTVMFFISmallStr:
    case kTVMFFIStr:
      return headers::BytesContent(&value);
    default:
      return std::nullopt;
  }
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIStringFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  return Guard([&] { *out = MakeString(View(*input)).Release(); });
}

int TVMFFIBytesFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  return Guard([&] { *out = MakeBytes(View(*input)).Release(); });
}
